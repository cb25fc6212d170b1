"""The reading engine: whether a body fits its shape, and every misfit when it does not."""
