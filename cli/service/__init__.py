"""How the roles of the service run: settings, start, health, metrics."""
