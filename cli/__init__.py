"""The `importledger` command."""
