"""The log itself: load, decide and append (`ledger`), the recorder, payloads, and the followers' side of it."""
