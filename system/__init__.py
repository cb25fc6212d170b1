"""How Python runs here: the interpreter, memory, processors, and processes that work for another."""
