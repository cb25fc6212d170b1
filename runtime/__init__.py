"""How Python runs here: the interpreter of processes that live long, and processes that work for another."""
