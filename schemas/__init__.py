"""The objects that importers send and read, as msgspec Structs, a file per resource. Pure."""
