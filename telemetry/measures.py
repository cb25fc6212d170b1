"""What is counted and timed, and where it goes: nowhere, until a role says that it is measured.

Whoever does something worth counting tells it here, and knows nothing of who listens. No value of an importer is told:
routes, codes, states and sizes alone.
"""

from collections.abc import Mapping


class Measures:
    """Hears of everything and keeps nothing: for verbs, tests, and roles that are not measured."""

    def answered(self, method: str, route: str | None, status: int | None, took_s: float) -> None:
        """A request was answered. No route: nothing is there; no status: the client went away before."""

    def settle(self) -> None:
        """Let others see what was told: whoever answers requests says so now and then."""

    def refused(self, code: str) -> None:
        """A request, or a line of a bulk body, was refused for this."""

    def accepted(self, mode: str, outcome: str) -> None:
        """An account was taken in (`create`, `dry_run`): `staged`, `replaced`, or `unchanged`."""

    def appended(self, events: int, took_s: float) -> None:
        """So many events went into the log in one transaction; the time holds the wait for the log's lock."""

    def rung(self, bell: str, streams: int) -> None:
        """A message for so many streams was sent."""

    def waiting(self, bell: str, messages: int) -> None:
        """So many messages wait for a worker."""

    def processed(self, imports: int, took_s: float) -> None:
        """A worker has brought so many imports to their end together."""

    def ended(self, status: str, imports: int) -> None:
        """So many imports have ended in this state."""

    def pool(self, name: str, said: Mapping[str, int]) -> None:
        """What a pool of connections says of itself (psycopg_pool's `get_stats`)."""

    def queued(self, appends: int) -> None:
        """So many appends wait for the writer of the log."""


_listening = [Measures()]


def measures() -> Measures:
    """Who is told now."""
    return _listening[0]


def measure_with(listener: Measures) -> None:
    """From now on, this one is told. For entry points, once."""
    _listening[0] = listener
