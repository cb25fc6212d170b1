"""HTTP in, HTTP out: a Starlette application."""
