"""Hostile requests and files, and the harm that they do to other callers of a running service."""
