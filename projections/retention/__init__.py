"""Retention: erasure of persons, archives of finished suppliers' payloads."""
