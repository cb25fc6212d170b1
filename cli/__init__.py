"""The `importledger` command."""

from system.alone import without

with without("rich"):  # before any other import of it: rich would take half of the start of a verb
    import structlog as structlog
