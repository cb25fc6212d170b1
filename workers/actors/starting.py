"""The first step of processing imports: start them under a lease, so that no other worker processes them."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import msgspec
import structlog

from eventstore.aggregates.import_process import ImportProcess, ImportStarted, PostponeImport, StartImport, stream_of
from eventstore.errors import StoreUnavailable, StreamUnreadable, first_line
from eventstore.log.ledger import Ledger, Loaded
from projections.views.import_status import leased_imports
from workers.backoff import backoff

MAX_ATTEMPTS = 5
LEASE = timedelta(seconds=60)
LONGEST_LEASE = timedelta(minutes=10)
"""Longest lease of an import after its last change, also if its event names a later end.

A forged lease could have no end.
"""
TRY_AGAIN_AFTER_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Pauses between tries while the database is unavailable [seconds]. Their sum is shorter than the lease."""

T = TypeVar("T")

logger = structlog.get_logger()


class Started(msgspec.Struct, frozen=True):
    """An import that this worker has started. `process.start` is the stream's version after the start."""

    stream: str
    process: ImportProcess

    def postponed(self, code: str, at: datetime) -> PostponeImport:
        """Return the command that postpones the import: a later attempt is made after the backoff."""
        return PostponeImport(start=self.process.start, code=code, due_at=at + backoff(self.process.attempt))


class Starter:
    """Starts imports. `worker` returns the number whose advisory lock this process holds."""

    def __init__(self, ledger: Ledger, worker: Callable[[], int]) -> None:
        self._ledger = ledger
        self._worker = worker
        self._newest_lease = datetime.min.replace(tzinfo=UTC)
        self._lease_lock = threading.Lock()

    def start(self, streams: Sequence[str], loaded: Mapping[str, Loaded | StreamUnreadable]) -> list[Started]:
        """Start imports that are due and that no other worker processes. Raises StoreUnavailable after the last try."""
        at = until_available(self._ledger.time, len(streams))
        command = StartImport(worker=self._worker(), lease_until=self._lease_from(at), max_attempts=MAX_ATTEMPTS)
        attempts = 0

        def start() -> list[Started]:
            nonlocal attempts
            attempts += 1
            outcomes = self._ledger.execute_many(
                dict.fromkeys(streams, command),
                at=at,
                by=f"worker:{command.worker}",
                loaded={stream: loaded[stream] for stream in streams},
            )
            before = self._leased(command) if attempts > 1 else set()
            return [
                Started(outcome.stream, outcome.state)
                for outcome in outcomes
                if outcome.stream in before or (outcome.recorded and isinstance(outcome.recorded.event, ImportStarted))
            ]

        return until_available(start, len(streams))

    def _lease_from(self, at: datetime) -> datetime:
        """Return the end of a lease.

        Each call returns another time, by which threads with the same worker's number recognise their own starts.
        """
        with self._lease_lock:
            self._newest_lease = max(at + LEASE, self._newest_lease + timedelta(microseconds=1))
            return self._newest_lease

    def _leased(self, command: StartImport) -> set[str]:
        """Return the streams of the imports that this command has started, although the database's answer was lost."""
        with self._ledger.connection() as connection:
            return {stream_of(*name) for name in leased_imports(connection, command.worker, command.lease_until)}


def until_available(work: Callable[[], T], imports: int) -> T:
    """Return the result of the work, and repeat the work after a pause while the database is unavailable.

    Imports that were started belong to this worker until their lease ends. Raises StoreUnavailable after the last try.
    """
    for pause_s in TRY_AGAIN_AFTER_S:
        try:
            return work()
        except StoreUnavailable as error:
            logger.warning("imports wait for the database", imports=imports, reason=first_line(error))
            time.sleep(pause_s)
    return work()
