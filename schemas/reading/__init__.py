"""The reading engine: reads a body as its shape, and finds every misfit of a body that does not fit."""
