"""The projector: keeps the projections that follow the log up to date, each from its own position.

One projector is active, by an advisory lock. The position changes in the transaction of the rows, so a crash repeats no
event. If the content of an event cannot be projected, its stream is parked, and all other streams continue. Any other
failure stops only its projection, until the projection succeeds again.
"""

import threading
from collections.abc import Sequence
from typing import Any

import msgspec
import structlog
from psycopg import Connection

from eventstore.aggregates.import_process import ImportStaged
from eventstore.errors import StoreUnavailable
from eventstore.log import follow, locks
from eventstore.log.columns import log_head
from eventstore.log.ledger import Ledger
from projections.versions.build import apply_batch
from projections.versions.projection import Projection
from projections.versions.reading import Batch, LastTopics, Poison, Seen, read_ordered, wait_for_erasures
from projections.versions.versions import ProjectionVersion, lock_live_version, park, parked_streams
from telemetry.supervision import supervision
from workers.followers.leader import Follower, ends_work

BATCH, BATCH_BYTES = 6_000, 200_000_000
"""Events of a batch, and bytes of their payloads. An erasure waits until the batch is committed."""
PAUSE_S = 0.4
"""Pause between two batches when there were no more events [seconds].

Large batches take less time for each event than small batches.
"""

logger = structlog.get_logger()


class _Read(msgspec.Struct, frozen=True):
    """Events after a position, and the position up to which the log was read."""

    after: int
    last_position: int
    batch: Sequence[tuple[str, Seen | Poison]]
    """Pairs (topic, event), since each projection selects events by topic."""
    is_all: bool
    """True if the log had no more events."""


class Projector(Follower):
    """Follower that updates the projections from the log until `stop` is set. Survives the loss of Postgres."""

    name = "projector"
    lock = locks.PROJECTOR

    def __init__(self, ledger: Ledger, projections: Sequence[Projection]) -> None:
        super().__init__(ledger)
        self._projections = projections
        self._outdated: set[str] = set()
        self._topics_of = {projection.name: frozenset(projection.topics) for projection in projections}
        self._topics = sorted(frozenset().union(*self._topics_of.values()))
        self._read: _Read | None = None
        self._last_topics = LastTopics()
        self._is_idle = True
        """True if the last batch was empty for all projections."""

    def work(self, connection: Connection[Any], stop: threading.Event) -> None:
        self._read, self._last_topics = None, LastTopics()
        while not stop.is_set():
            self._is_idle = True
            has_more = [self._advance_supervised(connection, projection) for projection in self._projections]
            self._put_in_order(connection)
            supervision.works(self.name)
            if not any(has_more):
                stop.wait(PAUSE_S)
                follow.wait(connection)

    def _advance_supervised(self, connection: Connection[Any], projection: Projection) -> bool:
        """Project the next events. A failure stops only this projection, which is tried again after a pause."""
        name, has_more = work_name(projection.name), False
        if supervision.is_due(name):
            with supervision.part(name, passes=ends_work(connection, StoreUnavailable)):
                has_more = self.advance(connection, projection)
        return has_more

    def advance(self, connection: Connection[Any], projection: Projection) -> bool:
        """Project the next events. Return False if there were no more."""
        with connection.transaction():
            live = lock_live_version(connection, projection.name)  # wait until a switch or a healing commits
            if live.is_outdated(projection):
                self._warn_outdated(projection.name)
                return False
            if projection.holds_persons:
                wait_for_erasures(connection)
            read = self._read_after(connection, live.position)
            if read.last_position == live.position:
                return False
            self._is_idle = False
            topics = self._topics_of[projection.name]
            batch = [item for topic, item in read.batch if topic in topics]
            if read.after != live.position:
                batch = [item for item in batch if item.position > live.position]
            poisoned = self._apply(connection, projection, live, batch) if batch else ()
            connection.execute(
                "UPDATE projection_versions SET position = %s WHERE name = %s AND version = %s",
                (read.last_position, projection.name, live.version),
            )
        for poison in poisoned:
            logger.error("stream parked", projection=projection.name, stream=poison.stream, position=poison.position)
        return not read.is_all

    def _put_in_order(self, connection: Connection[Any]) -> None:
        for projection in self._projections:
            name = f"order of {work_name(projection.name)}"
            if supervision.is_due(name):
                with supervision.part(name, passes=ends_work(connection, StoreUnavailable)):
                    projection.maintain(connection, is_idle=self._is_idle)

    def _apply(
        self,
        connection: Connection[Any],
        projection: Projection,
        live: ProjectionVersion,
        batch: Sequence[Seen | Poison],
    ) -> Sequence[Poison]:
        parked = set(parked_streams(connection, projection.name, live.version))
        poisoned = apply_batch(connection, projection, projection.home, batch, parked)
        park(connection, projection.name, live.version, poisoned)
        return poisoned

    def _read_after(self, connection: Connection[Any], position: int) -> "_Read":
        """Return the events after the position, possibly with earlier events, read once for all projections.

        A projection at another position, because it is new or was rebuilt, reaches the common position with this read.
        """
        read = self._read
        if read is None or not read.after <= position < read.last_position:
            last_position, batch = log_head(connection), Batch()
            if last_position > position:
                batch = read_ordered(
                    connection,
                    self._topics,
                    after=position,
                    upto=last_position,
                    limit=BATCH,
                    last_topics=self._last_topics,
                )
            selected = _within_bytes(batch)
            is_all = len(selected) < BATCH and len(selected) == len(batch) and not batch.is_cut
            last_position = last_position if is_all else selected[-1].position
            self._read = read = _Read(position, last_position, [(item.topic, item) for item in selected], is_all)
        return read

    def _warn_outdated(self, name: str) -> None:
        if name not in self._outdated:
            self._outdated.add(name)
            logger.warning("projection is outdated", projection=name, fix=f"projections rebuild {name}")


def work_name(projection: str) -> str:
    """Return the name under which the work for a projection is supervised."""
    return f"projection {projection}"


def _within_bytes(batch: Sequence[Seen | Poison]) -> Sequence[Seen | Poison]:
    """Return the first events of the batch, up to BATCH_BYTES of payloads."""
    total = 0
    for count, item in enumerate(batch, 1):
        if isinstance(item, Seen) and isinstance(item.recorded.event, ImportStaged):
            total += item.recorded.event.payload_bytes
            if total > BATCH_BYTES:
                return batch[:count]
    return batch
