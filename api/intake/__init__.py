"""Storing and counting accounts, records, refusals and members of runs."""
