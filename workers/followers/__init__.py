"""Followers of the log in the relay: sweeper, projector, sealer, owner's tasks."""
