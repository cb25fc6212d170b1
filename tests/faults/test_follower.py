"""Eight writers at once, appends of all sizes: a follower and the relay read every event of the log.

40,000 events by default; `make fuzz` appends 300,000 (FOLLOWED_EVENTS).
"""

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import IMPORT_PROCESS, stream_of
from eventstore.errors import VersionConflict
from eventstore.events import Recorded
from eventstore.log import follow
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import Payload
from eventstore.log.recorder import Append, LedgerDatastore, LedgerRecorder
from projections import INLINE
from tests.support.make import NOON, staged
from workers.broker import IMPORTS, Queue
from workers.followers.relay import FOLLOWER, Relay

EVENTS = int(os.environ.get("FOLLOWED_EVENTS", "40000"))
WRITERS = 8
SIZES = (1, 1, 1, 5, 50, 200, 1_000)


class Ears:
    """A doorbell that remembers for whom it was rung."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def enqueue(self, streams: Sequence[str], queue: Queue = IMPORTS) -> None:
        self.heard += streams

    def waiting(self, queue: Queue = IMPORTS) -> int:
        return 0


def write(database_url: str, writer: int) -> int:
    """Append this writer's share, in transactions of all sizes, each before a refused one; the number of its events."""
    random = Random(writer)
    datastore = LedgerDatastore(database_url, connections=1)
    recorder = LedgerRecorder(datastore, INLINE if writer % 2 else ())
    written, share = 0, EVENTS // WRITERS
    while written < share:
        size = min(random.choice(SIZES), share - written)
        streams = [stream_of("S", f"{writer}/{written + n}") for n in range(size)]
        events = [Recorded(stream, 1, staged(), NOON, "S", "t") for stream in streams]
        payloads = {streams[0]: Payload.of(random.randbytes(random.choice((10, 10_000))))}
        with datastore.pool.connection() as connection:
            recorder.append(connection, Append(events, payloads))
        new = Recorded(stream_of("S", f"{writer}/refused"), 1, staged(), NOON, "S", "t")
        with pytest.raises(VersionConflict), datastore.pool.connection() as connection:
            recorder.append(connection, Append([new, events[0]], {}))
        written += size
    datastore.close()
    return written


def test_a_follower_and_the_relay_miss_nothing(database: PostgresUrls) -> None:
    ledger = Ledger(database.service, views=INLINE)
    ears = Ears()
    relay = Relay(ledger, ears)
    is_written = threading.Event()
    seen: list[int] = []

    def follow_the_log() -> None:
        position = 0
        with ledger.connection() as connection:
            while True:
                is_last = is_written.is_set()
                events, position = follow.read_after(connection, position, list(IMPORT_PROCESS.topics), limit=777)
                seen.extend(event.position for event in events)
                if is_last and not events:
                    return

    def relay_the_log() -> None:
        with ledger.connection() as connection:
            while True:
                is_last = is_written.is_set()
                position = follow.checkpoint(connection, FOLLOWER)
                reached, _ = relay._read_log(connection, position)
                while relay._enqueue(IMPORTS, 0):
                    pass
                if reached == position and is_last:
                    return

    followers = [threading.Thread(target=work) for work in (follow_the_log, relay_the_log)]
    for follower in followers:
        follower.start()
    with ThreadPoolExecutor(WRITERS) as pool:
        written = sum(pool.map(lambda writer: write(database.service, writer), range(WRITERS)))
    is_written.set()
    for follower in followers:
        follower.join()
    ledger.close()
    assert seen == list(range(1, written + 1))
    assert len(ears.heard) == written
    assert len(set(ears.heard)) == written
