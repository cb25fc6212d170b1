"""How many connections to the database each process takes at most, and all of one service together."""

API_READS = 8
API_LISTS = 4
API_LOG = 10
RELAY = 7
OTHERS = 25
"""Verbs that operators call, jobs of the database's owner, and what processes ask beside their pools."""


def of_worker(threads: int) -> int:
    """Of a worker process with so many threads."""
    return 2 * threads + 7


def of_service(api_processes: int, workers: int, threads: int) -> int:
    """Of all processes of a service, whatever they do at a time."""
    return (API_READS + API_LISTS + API_LOG) * api_processes + of_worker(threads) * workers + RELAY + OTHERS
