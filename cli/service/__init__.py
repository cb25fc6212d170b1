"""The roles of the service as processes: settings, start, health, metrics."""
