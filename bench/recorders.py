"""The append alone: 64 threads store 10 KB accounts one by one, in the library's own (stock) recorder and in ours."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

from eventsourcing.persistence import StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore

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
    parts = urlsplit(admin_url)
    with PostgresDatastore(
        dbname=parts.path.lstrip("/"),
        host=parts.hostname or parse_qs(parts.query)["host"][0],
        port=parts.port or 5432,
        user=parts.username or "",
        password=parts.password or "",
        pool_size=CALLERS,
        originator_id_type="text",
        schema="stock",
    ) as datastore:
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
    counts = [0] * CALLERS
    deadline = time.monotonic() + SECONDS

    def call(caller: int) -> None:
        while time.monotonic() < deadline:
            store(f"{caller}/{counts[caller]}", bodies[counts[caller] % len(bodies)])
            counts[caller] += 1

    threads = [threading.Thread(target=call, args=(caller,)) for caller in range(CALLERS)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.monotonic() - started)
