"""How what arrives is staged and counted: accounts, records, refusals, members of runs."""
