"""A worker does parts of long jobs when no import waits; whatever happens to it, each part counts once."""

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from psycopg import Connection

from embedded.postgres import PostgresUrls
from eventstore.log.ledger import Ledger
from eventstore.log.long_jobs import MAX_ATTEMPTS, LongJob, add_job, results_of, standing_of, take_part
from eventstore.proof.hashed_range import HashedRange, Range
from projections.spreading.pieces import BuildPiece, HashPiece, PayloadPiece, edition, named_piece
from projections.versioning.reading import Slice
from tests.support.make import an_account
from tests.support.parts import alive
from tests.support.staging import SUPPLIER, stage
from workers import parts
from workers.broker import IMPORTS, LONG_JOBS
from workers.parts import PartWorker, Stopping
from workers.process_imports import ImportProcessor

STREAMS = Slice(None, f"import/{SUPPLIER}/Z")


@pytest.fixture
def alive_worker(database: PostgresUrls) -> Iterator[Connection[Any]]:
    with alive(database, 1) as connection:
        yield connection


@pytest.fixture
def doing(ledger: Ledger, alive_worker: Connection[Any]) -> PartWorker:
    return PartWorker(ledger, worker=lambda: 1, stop=threading.Event())


def a_job(ledger: Ledger, *pieces: Any, of: str | None = None, upto: int = 2) -> LongJob:
    said = [(msgspec.json.encode(piece).decode(), 1) for piece in pieces]
    with ledger.connection() as connection:
        return add_job(connection, "verify", "{}", of or edition(), upto, said)


def test_parts_are_done_and_their_results_kept(ledger: Ledger, doing: PartWorker) -> None:
    for number in (1, 2):
        stage(ledger, an_account(SUPPLIER, number), is_dry_run=True)
    process_all(ledger)
    job = a_job(ledger, HashPiece((Range(0, 2, (1,)),)), PayloadPiece(Slice()))
    doing.work([f"{job.job}/1", f"{job.job}/1", f"{job.job}/1"])  # each message brings a part on, whichever it names
    with ledger.connection() as connection:
        hashed, opened = results_of(connection, job.job)
    [one] = msgspec.json.decode(hashed, type=list[HashedRange])
    assert (one.events, one.is_dense, len(one.peaks), [*one.ends]) == (2, True, 1, [1])
    assert msgspec.json.decode(opened)["matching"] == 2


def process_all(ledger: Ledger) -> None:
    with ledger.connection() as connection:
        rows = connection.execute("SELECT stream FROM events WHERE topic = 'import_staged.v1'").fetchall()
    ImportProcessor(ledger, worker=lambda: 7).process([row["stream"] for row in rows])


def test_imports_come_before_parts(ledger: Ledger, doing: PartWorker) -> None:
    """Of messages as well, which have queues of their own, and of threads."""
    assert LONG_JOBS.priority > IMPORTS.priority
    stage(ledger, an_account(SUPPLIER, 1))
    job = a_job(ledger, HashPiece((Range(0, 1),)))
    working = threading.Thread(target=doing.work, args=([f"{job.job}/1"],))
    working.start()
    working.join(0.3)
    with ledger.connection() as connection:
        assert standing_of(connection, job.job).parts_taken == 0
    process_all(ledger)
    working.join(30)
    with ledger.connection() as connection:
        assert standing_of(connection, job.job).is_done


def test_a_part_that_has_begun_lets_imports_go_first(
    ledger: Ledger, doing: PartWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = iter([False, True, True, False])
    seen = []

    def imports_wait(connection: Connection[Any]) -> bool:
        seen.append(next(waits))
        return seen[-1]

    monkeypatch.setattr(parts, "imports_wait", imports_wait)
    job = a_job(ledger, HashPiece((Range(0, 0),)), upto=0)
    monkeypatch.setattr(
        "workers.pieces.hash_range", lambda connection, one: HashedRange(low=0, high=0, events=0, is_dense=True)
    )
    doing.work([f"{job.job}/1"])
    assert seen == [False, True, True, False]


def test_a_job_of_another_edition_is_refused(ledger: Ledger, doing: PartWorker) -> None:
    job = a_job(ledger, HashPiece((Range(0, 1),)), of="0.0.9 (former)")
    doing.work([f"{job.job}/1"])
    with ledger.connection() as connection:
        standing = standing_of(connection, job.job)
    assert (standing.refused_by, standing.parts_done, standing.parts_taken) == (edition(), 0, 0)


def test_a_part_that_fails_is_given_back_with_its_error(ledger: Ledger, doing: PartWorker) -> None:
    stage(ledger, an_account(SUPPLIER, 1), is_dry_run=True)
    process_all(ledger)
    job = a_job(ledger, BuildPiece("import_status", 9, STREAMS))  # there is no such version
    for _ in range(MAX_ATTEMPTS + 1):
        doing.work([f"{job.job}/1"])
    with ledger.connection() as connection:
        given_up = standing_of(connection, job.job).given_up
    assert given_up is not None
    assert re.match("InvalidSchemaName|UndefinedTable", given_up.error)  # whether its columns were asked for before
    assert named_piece(given_up.piece) == "streams from the first, up to import/NORDWIND/Z"


@pytest.mark.parametrize("happens", ["stopped", "taken over"])
def test_what_a_part_has_written_is_undone_when_it_does_not_end(
    ledger: Ledger, doing: PartWorker, monkeypatch: pytest.MonkeyPatch, happens: str
) -> None:
    stage(ledger, an_account(SUPPLIER, 1), is_dry_run=True)
    process_all(ledger)
    job = a_job(ledger, HashPiece((Range(0, 1),)))

    def do_piece(connection: Connection[Any], piece: Any, upto: int, breathe: Callable[[], None]) -> list[Any]:
        connection.execute("INSERT INTO checkpoints (follower, position) VALUES ('part', 1)")
        if happens == "stopped":
            raise Stopping
        with ledger.connection() as other:
            other.execute("UPDATE long_job_parts SET attempt = attempt + 1, worker = 0")
        return []

    monkeypatch.setattr(parts, "do_piece", do_piece)
    doing.work([f"{job.job}/1"])
    with ledger.connection() as connection:
        assert connection.execute("SELECT FROM checkpoints WHERE follower = 'part'").fetchone() is None
        part = take_part(connection, job.job, 1, 1)
    assert part is not None
    assert part.attempt == (1 if happens == "stopped" else 3)


def test_a_worker_that_is_to_end_takes_no_part(ledger: Ledger, alive_worker: Connection[Any]) -> None:
    stop = threading.Event()
    stop.set()
    job = a_job(ledger, HashPiece((Range(0, 1),)))
    PartWorker(ledger, worker=lambda: 1, stop=stop).work([f"{job.job}/1", "unknown/1"])
    with ledger.connection() as connection:
        assert take_part(connection, job.job, 1, 1) is not None
