"""A long history for the benchmarks, written straight into the log: accounts that were staged, started and processed.

Events, payloads and keys are those that the service writes, in its order: many staged, then started, then processed.
Account numbers are drawn as the worker draws them, and no account is like another; only HTTP and the worker are left
out.
"""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
import psycopg
from psycopg.rows import dict_row

from eventstore.aggregates.import_process import ImportErrored, ImportProcessed, ImportStaged, ImportStarted, stream_of
from eventstore.clock import now
from eventstore.events import Recorded
from eventstore.log.payloads import Payload
from eventstore.log.recorder import Append, LedgerDatastore, LedgerRecorder
from importledger_client.book import one_account
from system.parallel import processes
from workers.actors.account_number import draw_account_numbers

EVENTS_AN_ACCOUNT = 3
BATCH = 1_000
BATCHES_AT_ONCE = 10
NAMED = "BENCH-%07d"
"""Format of the external account number of an account, by its number in the history."""


def append_all(database_url: str, supplier: str, numbers: range, *, run: str = "") -> int:
    """Append the events and payloads of these accounts, in a run if one is named. Every hundredth import fails.

    Return the log's last position.
    """
    datastore = LedgerDatastore(database_url, connections=1)
    recorder = LedgerRecorder(datastore)
    position = 0
    with psycopg.connect(database_url, row_factory=dict_row, autocommit=True) as connection:
        for append in _appends(connection, supplier, numbers, run):
            position = recorder.append(connection, append) + len(append.events)
    datastore.close()
    return position


def append_in_parallel(database_url: str, supplier: str, numbers: range, *, jobs: int, run: str = "") -> None:
    """Append the accounts in `jobs` processes, about in the order of their numbers."""
    step = BATCH * BATCHES_AT_ONCE
    parts = [numbers[first : first + step] for first in range(0, len(numbers), step)]
    with processes(jobs) as pool:
        list(pool.map(partial(append_all, database_url, supplier, run=run), parts))


def _appends(connection: psycopg.Connection[Any], supplier: str, numbers: range, run: str) -> Iterator[Append]:
    began = now() - timedelta(days=1)
    for first in range(numbers.start, numbers.stop, BATCH):
        events: list[Recorded] = []
        payloads: dict[str, Payload] = {}
        batch = range(first, min(first + BATCH, numbers.stop))
        drawn = draw_account_numbers(connection, sum(not _fails(number) for number in batch))
        for number in batch:
            external = NAMED % number
            body = msgspec.json.encode(one_account(supplier, number) | {"external_account_number": external})
            payload = Payload.of(body)
            stream = stream_of(supplier, external)
            payloads[stream] = payload.encrypted(stream, None, subject=stream)
            digest, at = payload.sha256.hex(), began + timedelta(milliseconds=number)
            staged = ImportStaged(payload_sha256=digest, content_sha256=digest, payload_bytes=len(body), run=run)
            started = ImportStarted(attempt=1, worker=1, lease_until=at)
            ended = (
                ImportErrored(attempt=1, code="reference_not_unique", detail="The reference is taken.")
                if _fails(number)
                else ImportProcessed(attempt=1, account_number=next(drawn), created_at=at)
            )
            events += [
                Recorded(stream, version, event, at, supplier, "bench")
                for version, event in enumerate((staged, started, ended), 1)
            ]
        yield Append(sorted(events, key=lambda recorded: recorded.version), payloads)


def _fails(number: int) -> bool:
    return number % 100 == 0
