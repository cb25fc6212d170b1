"""The log on a real Postgres: order, conflicts, atomic appends, and no changes."""

import asyncio
import contextlib
import itertools
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates import import_process
from eventstore.aggregates.import_process import CompleteImport, RetryImport, stream_of
from eventstore.aggregates.supplier import CreateSupplier
from eventstore.errors import IllegalTransition, ImportInProgress, VersionConflict
from eventstore.events import NO_METADATA, Metadata, origin
from eventstore.log.answers import Answer
from eventstore.log.copy_format import COLUMNS, INTEGER, SIZE, text
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import Payload
from eventstore.log.recorder import Append
from eventstore.log.rows import value_of
from projections import INLINE
from projections.platform.change import copying
from tests.support.databases import Admin
from tests.support.make import NOON, OTHER_DIGEST, stage, staged, start
from tests.support.times import set_log_time

STREAM, OTHER_STREAM = stream_of("NORDWIND", "NW/1 ä"), stream_of("NORDWIND", "2")


def test_what_is_executed_is_in_the_history_with_its_circumstances(ledger: Ledger, database: PostgresUrls) -> None:
    set_log_time(database, NOON)
    recorded = ledger.execute(STREAM, stage(), at=NOON, by="tester", answer=Answer("c1", b"d", 201, b"{}"))
    assert recorded is not None
    [event] = ledger.history(STREAM)
    assert event == recorded
    assert (event.position, event.version, event.supplier, event.caused_by) == (1, 1, "NORDWIND", "tester")
    assert (event.command_id, event.recorded_at, event.event) == ("c1", NOON, staged())


def test_many_commands_are_one_transaction(ledger: Ledger) -> None:
    streams = [stream_of("NORDWIND", str(n)) for n in range(5)]
    outcomes = ledger.execute_many(dict.fromkeys(streams, stage()), at=NOON, by="tester")
    assert [o.recorded.position for o in outcomes if o.recorded] == [1, 2, 3, 4, 5]
    assert {o.state.status for o in outcomes} == {"PENDING"}
    mixed = ledger.execute_many({streams[0]: stage(), streams[1]: RetryImport(), streams[2]: start()}, at=NOON, by="t")
    retried = next(o for o in mixed if o.stream == streams[1])
    assert retried.refusal is None
    assert retried.recorded is None
    assert [o.stream for o in mixed if o.recorded] == [streams[2]]


def test_rows_and_events_stand_and_fall_together(ledger: Ledger, admin: Admin) -> None:
    row = _a_melo()
    ledger.execute_many({STREAM: stage()}, at=NOON, by="tester")
    with pytest.raises(IllegalTransition):
        ledger.execute_many(
            {STREAM: CompleteImport(start=2, account_number="A-1")},
            at=NOON,
            by="t",
            write_rows=copying({"melo": [row]}),
            needs_all=True,
        )
    with pytest.raises(psycopg.errors.UniqueViolation):
        ledger.execute_many(
            {STREAM: start()}, at=NOON, by="t", write_rows=copying({"melo": [row, row]}), needs_all=True
        )
    assert value_of(admin, "SELECT count(*) FROM platform.melo") == 0
    assert len(ledger.history(STREAM)) == 1
    ledger.execute_many({STREAM: start()}, at=NOON, by="t", write_rows=copying({"melo": [row]}), needs_all=True)
    assert value_of(admin, "SELECT count(*) FROM platform.melo") == 1


def _a_melo() -> bytes:
    nothing = b"".join(SIZE[2] + b"[]" for _ in range(2))
    return COLUMNS[6] + text("A-1") + INTEGER[1] + INTEGER[1] + text("DE0123") + nothing


def test_two_writers_of_one_stream_make_one_event(ledger: Ledger) -> None:
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: ledger.execute(STREAM, stage(), at=NOON, by="t"), range(32)))
    assert sum(result is not None for result in results) == 1
    assert len(ledger.history(STREAM)) == 1


def test_an_append_to_a_stream_that_exists_conflicts_alone(ledger: Ledger) -> None:
    ledger.execute(STREAM, stage(), at=NOON, by="t")

    async def begin_all() -> list[int | BaseException]:
        streams = [STREAM if n == 5 else stream_of("NORDWIND", f"b{n}") for n in range(40)]
        return await asyncio.gather(
            *(ledger.begin(stream, stage(), at=NOON, by="t") for stream in streams), return_exceptions=True
        )

    results = asyncio.run(begin_all())
    assert [n for n, result in enumerate(results) if isinstance(result, VersionConflict)] == [5]
    assert sorted(result for result in results if isinstance(result, int)) == list(range(2, 41))


def test_a_payload_that_is_there_before_its_stream_conflicts_alone(ledger: Ledger, admin: Admin) -> None:
    """A leftover payload conflicts with a new stream, and the other appends of the batch are stored."""
    payload = Payload.of(b"a body")
    left = (STREAM, payload.sha256, NOON, payload.received_bytes, payload.content)
    admin.execute(
        "INSERT INTO payloads (stream, sha256, recorded_at, received_bytes, content) VALUES (%s, %s, %s, %s, %s)",
        left,
    )

    async def begin_all() -> list[int | BaseException]:
        begun = [ledger.begin(stream, stage(), at=NOON, by="t", payload=payload) for stream in (OTHER_STREAM, STREAM)]
        return await asyncio.gather(*begun, return_exceptions=True)

    position, conflict = asyncio.run(begin_all())
    assert position == 1
    assert isinstance(conflict, VersionConflict)
    assert ledger.execute(STREAM, stage(), at=NOON, by="t", payload=payload) is not None
    digest = payload.sha256.hex()
    assert ledger.payloads({STREAM: digest, OTHER_STREAM: digest}) == {STREAM: b"a body", OTHER_STREAM: b"a body"}


def test_a_ledger_goes_on_after_any_number_of_conflicts(database: PostgresUrls) -> None:
    """One connection is used: psycopg's prepared statements must be those of the server."""
    one, other = (Ledger(database.service, views=INLINE, connections=count) for count in (1, 4))
    for n in range(12):
        stream = stream_of("S", str(n))
        decide = one._decide_all

        def late(*arguments: Any, stream: str = stream, decide: Any = decide) -> Any:
            """Somebody else appends between the reading and the writing of the first try."""
            decided = decide(*arguments)
            one._decide_all = decide  # type: ignore[method-assign]
            other.execute(stream, stage(), at=NOON, by="o")
            return decided

        one._decide_all = late  # type: ignore[method-assign, assignment]
        [outcome] = one.execute_many({stream: stage(OTHER_DIGEST)}, at=NOON, by="t")
        assert outcome.recorded is not None
        assert outcome.recorded.version == 2
    one.close()
    other.close()


@pytest.mark.parametrize("statement", ["UPDATE events SET topic = 'x'", "DELETE FROM events", "TRUNCATE events"])
def test_nobody_changes_the_log(ledger: Ledger, database: PostgresUrls, statement: str) -> None:
    ledger.execute(STREAM, stage(), at=NOON, by="t")
    for url in (database.service, database.admin):
        with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement.encode())
    assert len(ledger.history(STREAM)) == 1


def test_an_append_reads_no_table_whole_though_they_were_small_when_it_was_planned(
    database: PostgresUrls, admin: Admin
) -> None:
    """Postgres prefers sequential scans of small tables and keeps such plans for the connection."""
    with contextlib.closing(Ledger(database.service, views=INLINE)) as ledger:
        ledger.execute(import_process.stream_of("S", "0"), stage(), at=NOON, by="t")
        admin.execute("VACUUM ANALYZE")
        before = _whole_reads(admin)
        for number in range(1, 9):
            ledger.execute(import_process.stream_of("S", str(number)), stage(), at=NOON, by="t")
    assert _whole_reads(admin) == before


def _whole_reads(admin: Admin) -> list[tuple[str, int]]:
    """Return the number of sequential scans of each table that an append writes."""
    return admin.execute(
        "SELECT relname, seq_scan FROM pg_stat_user_tables"
        " WHERE relname IN ('events', 'payloads', 'payload_keys', 'import_status') ORDER BY 1"
    ).fetchall()


@pytest.mark.promise("conflict-concerns-own-account")
def test_a_stream_with_many_writers_keeps_no_other_waiting(
    ledger: Ledger, database: PostgresUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rival appends to one stream before each try: it is refused, and the others are written."""
    streams = [stream_of("S", str(number)) for number in range(5)]
    hot, rival = streams[2], Ledger(database.service, views=INLINE)
    append, digests, written = Ledger._append_with_rows, itertools.count(), list[list[str]]()

    def outrun(self: Ledger, append_: Append, write_rows: Any) -> Any:
        if self is ledger:
            written.append([event.stream for event in append_.events])
            if hot in written[-1]:
                rival.execute_many({hot: stage(f"{next(digests):064}")}, at=NOON, by="rival")
        return append(self, append_, write_rows)

    monkeypatch.setattr(Ledger, "_append_with_rows", outrun)
    ledger.execute_many(dict.fromkeys(streams, stage()), at=NOON, by="t")
    decisions = ledger.execute_many(dict.fromkeys(streams, start()), at=NOON, by="t")
    rival.close()
    assert [decision.stream for decision in decisions] == streams
    assert {type(decision.refusal) for decision in decisions if decision.stream == hot} == {ImportInProgress}
    assert [decision.state.status for decision in decisions if decision.recorded] == ["IN_PROGRESS"] * 4
    assert [writes for writes in written if hot not in writes] == [[*streams[:2], *streams[3:]]] * 2


@pytest.mark.promise("times-rise-positions-leases")
@pytest.mark.asvs("V16.2.2")
def test_times_rise_with_positions_whatever_clocks_the_writers_have(ledger: Ledger, database: PostgresUrls) -> None:
    """Each append has one time of the database's clock, taken under the log's lock. It never decreases."""
    before = ledger.time()
    ahead, behind = before + timedelta(hours=1), before - timedelta(hours=1)

    def write(writer: int) -> None:
        for number in range(20):
            stream = stream_of("S", f"{writer}-{number}")
            ledger.execute(stream, stage(), at=(ahead, behind)[number % 2], by="t")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    set_log_time(database, behind)
    ledger.execute(stream_of("S", "last"), stage(), at=behind, by="t")
    with psycopg.connect(database.service) as connection:
        times = [at for (at,) in connection.execute("SELECT recorded_at FROM events ORDER BY position")]
        shown = connection.execute("SELECT created_at, modified_at FROM import_status ORDER BY position").fetchall()
    assert times == sorted(times)
    assert len(times) == 81
    assert before < times[0] < times[-1] == times[-2] < ahead
    assert shown == [(at, at) for at in times]


def test_an_event_of_a_request_names_it_and_one_of_none_does_not(ledger: Ledger) -> None:
    request = Metadata("delivery-7")
    token = origin.set(request)
    ledger.execute("supplier/ASKED", CreateSupplier(), at=NOON, by="t")
    ledger.execute_many({"supplier/ALSO": CreateSupplier()}, at=NOON, by="t")
    origin.reset(token)
    ledger.execute("supplier/UNASKED", CreateSupplier(), at=NOON, by="t")
    of = {stream: ledger.history(f"supplier/{stream}")[0].metadata for stream in ("ASKED", "ALSO", "UNASKED")}
    assert of == {"ASKED": request, "ALSO": request, "UNASKED": NO_METADATA}
