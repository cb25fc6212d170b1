"""Queries without a table of their own."""
