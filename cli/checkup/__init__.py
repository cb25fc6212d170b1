"""Checks of `importledger doctor`, and what to type where a result is not good."""
