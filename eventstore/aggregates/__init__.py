"""Aggregates: a file for each kind of stream, with events, commands, state, `decide` and `evolve`. Pure."""
