"""A long history for the benchmarks, written straight into the log: accounts that were staged, started and processed.

The events, payloads and keys are what the service writes; only HTTP and the worker are left out.
"""

import random
from collections.abc import Iterator
from datetime import timedelta

import msgspec
import psycopg
from psycopg.rows import dict_row

from eventstore.aggregates.import_process import ImportErrored, ImportProcessed, ImportStaged, ImportStarted, stream_of
from eventstore.clock import now
from eventstore.events import Recorded
from eventstore.log.payloads import Payload, random_key
from eventstore.log.recorder import Append, LedgerDatastore, LedgerRecorder
from importledger_client.book import one_account

EVENTS_AN_ACCOUNT = 3
TEMPLATES = 200
BATCH = 1_000


def append_all(database_url: str, supplier: str, numbers: range, *, run: str = "") -> int:
    """Append these accounts' events and payloads, all of one run where it is named; every hundredth import fails.

    Returns the log's last position.
    """
    datastore = LedgerDatastore(database_url, connections=1)
    recorder = LedgerRecorder(datastore)
    position = 0
    with psycopg.connect(database_url, row_factory=dict_row, autocommit=True) as connection:
        for append in _appends(supplier, numbers, run):
            position = recorder.append(connection, append) + len(append.events)
    datastore.close()
    return position


def _appends(supplier: str, numbers: range, run: str) -> Iterator[Append]:
    templates = [one_account(supplier, number) for number in range(1, TEMPLATES + 1)]
    began = now() - timedelta(days=1)
    for first in range(numbers.start, numbers.stop, BATCH):
        events: list[Recorded] = []
        payloads: dict[str, Payload] = {}
        for number in range(first, min(first + BATCH, numbers.stop)):
            external = f"BENCH-{number:07}"
            template = random.choice(templates)
            body = msgspec.json.encode(template | {"external_account_number": external})
            payload = Payload.of(body)
            stream = stream_of(supplier, external)
            payloads[stream] = payload.encrypted(stream, random_key(), subject=stream, is_new=True)
            digest, at = payload.sha256.hex(), began + timedelta(milliseconds=number)
            staged = ImportStaged(payload_sha256=digest, content_sha256=digest, payload_bytes=len(body), run=run)
            started = ImportStarted(attempt=1, worker=1, lease_until=at)
            ended = (
                ImportErrored(attempt=1, code="reference_not_unique", detail="The reference is taken.")
                if number % 100 == 0
                else ImportProcessed(attempt=1, account_number=f"A-{number:08}")
            )
            events += [
                Recorded(stream, version, event, at, supplier, "bench")
                for version, event in enumerate((staged, started, ended), 1)
            ]
        yield Append(events, payloads)
