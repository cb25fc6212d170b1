"""The log and what may enter it: aggregates (pure), the ledger (load, decide, append), the recorder, followers."""
