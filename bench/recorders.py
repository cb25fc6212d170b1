"""The append alone: 64 threads store 10 KB accounts one by one, in the library's own (stock) recorder and in ours."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from eventsourcing.persistence import StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore
from psycopg.conninfo import conninfo_to_dict

from eventstore.aggregates.import_process import ImportStaged, stream_of
from eventstore.events import Recorded
from eventstore.log.group_commit import GroupCommitter
from eventstore.log.payloads import Payload
from eventstore.log.recorder import Append, LedgerDatastore, LedgerRecorder
from importledger_client.book import book

CALLERS = 64
SECONDS = 4.0


def stock_rate(admin_url: str, run: int) -> float:
    """Return the accounts a second of the library's recorder, on a table of its own."""
    server: dict[str, Any] = {"port": 5432, "password": ""} | conninfo_to_dict(admin_url)
    with PostgresDatastore(**server, pool_size=CALLERS, originator_id_type="text", schema="stock") as datastore:
        with datastore.get_connection() as connection:
            connection.execute("CREATE SCHEMA IF NOT EXISTS stock")
        recorder = PostgresApplicationRecorder(datastore, events_table_name="stored_events")
        recorder.create_table()

        def store(name: str, body: bytes) -> None:
            recorder.insert_events([StoredEvent(f"{run}/{name}", 1, "import_staged.v1", body)])

        return _rate(store)


def ledger_rate(database_url: str, run: int) -> float:
    """Return the accounts a second of the group committer and our recorder, with events and compressed payloads."""
    datastore = LedgerDatastore(database_url, connections=2)
    committer = GroupCommitter(LedgerRecorder(datastore))

    def store(name: str, body: bytes) -> None:
        payload = Payload.of(body)
        stream = stream_of("BENCH", f"{run}/{name}")
        event = ImportStaged(
            payload_sha256=payload.sha256.hex(), content_sha256=payload.sha256.hex(), payload_bytes=len(body)
        )
        recorded = Recorded(stream, 1, event, datetime.now(UTC), "BENCH", "bench")
        committer.append(Append([recorded], {stream: payload}))

    try:
        return _rate(store)
    finally:
        committer.close()
        datastore.close()


def _rate(store: Callable[[str, bytes], None]) -> float:
    bodies = [entry.body for entry in book("BENCH", 20)]
    started = time.monotonic()

    def stored(caller: int) -> int:
        count = 0
        while time.monotonic() < started + SECONDS:
            store(f"{caller}/{count}", bodies[count % len(bodies)])
            count += 1
        return count

    with ThreadPoolExecutor(CALLERS) as pool:
        return sum(pool.map(stored, range(CALLERS))) / (time.monotonic() - started)
