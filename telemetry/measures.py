"""Counts and times of the service, which are dropped until a role installs a listener.

Code that counts calls `measures()`, and does not depend on the listener. Values of importers are never passed: only
routes, codes, states and sizes.
"""

from collections.abc import Mapping


class Measures:
    """Listener that ignores everything: for verbs, tests, and roles without metrics."""

    def answered(self, method: str, route: str | None, status: int | None, duration_s: float) -> None:
        """Count an answer. `route` is None for an unknown path, `status` if the client left before the answer."""

    def settle(self) -> None:
        """Make counts visible to other processes. Code that answers requests calls `settle` at an interval."""

    def refused(self, code: str) -> None:
        """Count a request, or a line of a bulk body, that was refused with this code."""

    def accepted(self, mode: str, outcome: str) -> None:
        """Count an accepted account by mode (`create`, `dry_run`) and outcome (`staged`, `replaced`, `unchanged`)."""

    def appended(self, events: int, duration_s: float) -> None:
        """Count the events of a transaction, and its time, which includes the wait for the log's lock."""

    def message_sent(self, queue: str, streams: int) -> None:
        """Count a message that was sent to the queue `queue`, and the streams that it names."""

    def waiting(self, queue: str, messages: int) -> None:
        """Record the number of messages that wait in the queue `queue` for a worker."""

    def processed(self, imports: int, duration_s: float) -> None:
        """Count a batch of imports that a worker has completed, and its time."""

    def ended(self, status: str, imports: int) -> None:
        """Count imports that have ended in this state."""

    def pool(self, name: str, stats: Mapping[str, int]) -> None:
        """Record the state of a pool of connections (psycopg_pool's `get_stats`)."""

    def queued(self, appends: int) -> None:
        """Record the number of appends that wait for the writer of the log."""


_listening = [Measures()]


def measures() -> Measures:
    """Return the listener of this process."""
    return _listening[0]


def measure_with(listener: Measures) -> None:
    """Install the listener of this process. Entry points call this once."""
    _listening[0] = listener
