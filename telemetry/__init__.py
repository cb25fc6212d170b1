"""Metrics and traces of the service. They cost nothing while they are off."""
