"""How many connections to the database each process takes at most, and all of one service together."""

API_READS = 8
API_LISTS = 4
API_LOG = 10
RELAY = 8
WORKER = 12
METRICS = 1
"""Of each process that is asked for its metrics, beside its pools."""
OTHERS = 28
"""Verbs that operators call, jobs of the database's owner, and the three that Postgres keeps for administrators."""


def of_service(api_processes: int, workers: int) -> int:
    """Connections of all processes of a service together, at most."""
    api = (API_READS + API_LISTS + API_LOG + METRICS) * api_processes
    return api + (WORKER + METRICS) * workers + RELAY + METRICS + OTHERS
