"""Postgres and Redis from Python wheels, and the supervisor that runs the whole service as one process tree."""
