"""Mutation testing: each rule and limit of the pure core is changed, and a test has to notice."""
