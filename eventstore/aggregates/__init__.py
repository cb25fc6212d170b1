"""What may happen: one file per kind of stream, with its events, commands, state, `decide` and `evolve`. Pure."""
