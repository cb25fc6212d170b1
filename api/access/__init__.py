"""Keys, tokens and roles of callers, and their rates."""
