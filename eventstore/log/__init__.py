"""The log: load, decide and append (`ledger`), the recorder, payloads, and reading for followers."""
