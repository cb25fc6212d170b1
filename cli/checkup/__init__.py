"""Checks of `importledger doctor`, and the command that fixes each fault."""
