"""Retention: persons are erased, payloads of finished suppliers are archived."""
