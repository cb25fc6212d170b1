"""The log: aggregates (pure), the ledger (load, decide, append), the recorder, followers."""
