"""The seven usual changes of this code as patches, which are applied to a copy to count the files that they touch."""
