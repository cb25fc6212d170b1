"""Readers of tables, one module for each format, and the second count that every reading is compared with."""
