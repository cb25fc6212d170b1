"""Hostile requests and files, and their effects on other callers of a running service."""
