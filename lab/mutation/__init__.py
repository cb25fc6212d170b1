"""Mutation testing: change each rule and limit of the pure core, and check that a test fails."""
