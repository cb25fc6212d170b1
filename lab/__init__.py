"""Laboratories: failover, chaos, mutation, simulation and the usual changes, each a verb of the Makefile."""
