"""Readers of tables, one module for each format, with a second count to compare each reading with."""
