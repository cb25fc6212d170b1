"""Counts and times of the service. They go nowhere until a role installs a listener.

Code that has something to count calls `measures()`, and does not depend on the listener. Values of importers are never
passed: only routes, codes, states and sizes.
"""

from collections.abc import Mapping


class Measures:
    """Listener that ignores everything: for verbs, tests, and roles without metrics."""

    def answered(self, method: str, route: str | None, status: int | None, took_s: float) -> None:
        """A request was answered. Without a route nothing was found; without a status the client left before."""

    def settle(self) -> None:
        """Make counts visible to other processes. Called now and then by the code that answers requests."""

    def refused(self, code: str) -> None:
        """A request, or a line of a bulk body, was refused with this code."""

    def accepted(self, mode: str, outcome: str) -> None:
        """An account was accepted (`create`, `dry_run`): `staged`, `replaced`, or `unchanged`."""

    def appended(self, events: int, took_s: float) -> None:
        """Events were appended in one transaction. The time includes the wait for the log's lock."""

    def rung(self, bell: str, streams: int) -> None:
        """A message for some streams was sent."""

    def waiting(self, bell: str, messages: int) -> None:
        """Messages are waiting for a worker."""

    def processed(self, imports: int, took_s: float) -> None:
        """A worker has completed imports in one batch."""

    def ended(self, status: str, imports: int) -> None:
        """Imports have ended in this state."""

    def pool(self, name: str, stats: Mapping[str, int]) -> None:
        """State of a pool of connections (psycopg_pool's `get_stats`)."""

    def queued(self, appends: int) -> None:
        """Appends are waiting for the writer of the log."""


_listening = [Measures()]


def measures() -> Measures:
    """Return the listener of this process."""
    return _listening[0]


def measure_with(listener: Measures) -> None:
    """Install the listener of this process. For entry points, once."""
    _listening[0] = listener
