"""The decoder: reads a body as its shape, or finds every error of a body that has another shape."""
