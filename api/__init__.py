"""The HTTP interface: a Starlette application."""
