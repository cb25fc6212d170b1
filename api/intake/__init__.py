"""Staging and counting of what arrives: accounts, records, refusals, members of runs."""
