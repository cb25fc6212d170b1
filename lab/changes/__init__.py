"""The seven usual changes, each as a patch that is made on a copy of the tree: how wide is a change of this code?"""
