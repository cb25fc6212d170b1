"""The `importledger` command."""

from system.alone import without

with without("rich"):  # before any other import of it: loading rich would slow down the start of every verb
    import structlog as structlog
