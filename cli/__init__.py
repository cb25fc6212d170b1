"""The `importledger` command."""

from system.alone import without

with without("rich"):  # before any file of ours does, which would take it along: half the time that a verb starts in
    import structlog as structlog
