"""Followers of the log in the relay: sweeper, projector, sealer, tasks of the owner."""
