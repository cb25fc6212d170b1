"""The `importledger` command."""

from system.hidden_imports import hiding

with hiding("rich"):  # before any other import of structlog: loading rich would slow down the start of every verb
    import structlog as structlog
