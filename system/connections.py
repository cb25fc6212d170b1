"""Largest number of database connections of each process, and of a whole service."""

API_READS = 8
API_LISTS = 4
API_LOG = 10
"""Connections of an api process that may write. One connection is reserved for the writer of the log."""
RELAY = 8
WORKER = 12
METRICS = 1
"""Connections for metrics of each process, in addition to its pools."""
RESERVED = 28
"""Connections of commands, of jobs of the database's owner, and the three that Postgres reserves for superusers."""


def of_service(api_processes: int, workers: int) -> int:
    """Return the largest number of connections of all processes of a service."""
    api = (API_READS + API_LISTS + API_LOG + METRICS) * api_processes
    return api + (WORKER + METRICS) * workers + RELAY + METRICS + RESERVED
