"""Laboratories: failover, chaos, mutation and the usual changes, each a verb of the Makefile."""
