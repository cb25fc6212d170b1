"""The `importledger` command."""

from system.hidden_imports import hiding

with hiding("rich"):  # before any other import of it: loading rich would slow down the start of every verb
    import structlog as structlog
