"""The state of a supplier follows from its counts and rate."""

import asyncio
from datetime import timedelta
from typing import Any

import psycopg

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import CompleteImport, FailImport, stream_of
from eventstore.aggregates.supplier import ChangeSupplierStatus, CreateSupplier
from eventstore.aggregates.supplier import stream_of as supplier_stream
from eventstore.log.ledger import Ledger
from projections.queries.supplier_overview import SupplierStanding, counts_by_status, supplier_codes, supplier_standings
from projections.views.throughput import recent_activity
from tests.support.following import follow
from tests.support.make import NOON, stage, start
from tests.support.rows import run_query
from tests.support.times import set_log_time


def standing(per_minute: float = 0.0, **by_status: int) -> SupplierStanding:
    return SupplierStanding(
        code="S",
        status="ongoing",
        reason="",
        by_status=by_status,
        per_minute=per_minute,
        received_per_minute=0.0,
        oldest_waiting_at=None,
    )


def test_a_standing_adds_up() -> None:
    one = standing(30.0, PENDING=50, IN_PROGRESS=10, PROCESSED=30, ERRORED=8, DRY_RUN_ERRORED=2, CANCELLED=20)
    assert (one.total, one.waiting, one.failed, one.error_share, one.eta_s) == (120, 60, 10, 0.25, 120.0)
    assert [status for status, _, _ in one.shares][:2] == ["PENDING", "IN_PROGRESS"]
    assert sum(share for _, _, share in one.shares) == 1


def test_suppliers_stand_as_the_log_says(ledger: Ledger, database: PostgresUrls) -> None:
    set_log_time(database, NOON)
    for code in ("S", "T"):
        ledger.execute(supplier_stream(code), CreateSupplier(), at=NOON, by="t")
    command = ChangeSupplierStatus(status="paused", reason="wait")
    ledger.execute(supplier_stream("T"), command, at=NOON, by="t")
    for number in range(4):
        set_log_time(database, NOON + timedelta(seconds=number))
        ledger.execute(stream_of("S", f"{number}"), stage(), at=NOON, by="t")
    for number in range(2):
        ledger.execute(stream_of("S", f"{number}"), start(), at=NOON, by="t")
    set_log_time(database, NOON + timedelta(minutes=1))
    done = CompleteImport(start=2, account_number="A-1")
    ledger.execute(stream_of("S", "0"), done, at=NOON, by="t")
    failed = FailImport(start=2, code="given_up", detail="No.")
    ledger.execute(stream_of("S", "1"), failed, at=NOON, by="t")
    follow(ledger)

    async def overview(reach: list[str] | None) -> tuple[list[str], list[SupplierStanding]]:
        async with await psycopg.AsyncConnection.connect(database.service, autocommit=True) as connection:
            at = NOON + timedelta(minutes=3, seconds=20)
            return await supplier_codes(connection, reach), await supplier_standings(connection, reach, at)

    codes, [one, other] = asyncio.run(overview(None))
    assert codes == ["S", "T"]
    assert one.by_status == {"PENDING": 2, "PROCESSED": 1, "ERRORED": 1}
    assert (one.per_minute, one.received_per_minute) == (0.4, 0.8)
    assert one.oldest_waiting_at == NOON + timedelta(seconds=2)
    assert (other.status, other.reason, other.total, other.oldest_waiting_at) == ("paused", "wait", 0, None)
    within: Any = asyncio.run(overview(["T"]))
    assert (within[0], [one.code for one in within[1]]) == (["T"], ["T"])


def test_suppliers_that_need_attention_come_first_in_pages(ledger: Ledger, database: PostgresUrls) -> None:
    """A failed import counts, and one that waits because its supplier is paused."""
    for code in ("A", "B", "C", "D"):
        ledger.execute(supplier_stream(code), CreateSupplier(), at=NOON, by="t")
    ledger.execute(supplier_stream("A"), ChangeSupplierStatus(status="complete", reason=""), at=NOON, by="t")
    for number in range(3):
        ledger.execute(stream_of("C", f"{number}"), stage(), at=NOON, by="t")
    ledger.execute(supplier_stream("C"), ChangeSupplierStatus(status="paused", reason=""), at=NOON, by="t")
    for number in range(2):
        ledger.execute(stream_of("D", f"{number}"), stage(), at=NOON, by="t")
        ledger.execute(stream_of("D", f"{number}"), start(), at=NOON, by="t")
        failed = FailImport(start=2, code="given_up", detail="No.")
        ledger.execute(stream_of("D", f"{number}"), failed, at=NOON, by="t")
    follow(ledger)
    whole = run_query(database.service, supplier_standings, None, NOON)
    assert [(one.code, one.attention) for one in whole] == [("C", 3), ("D", 2), ("B", 0), ("A", 0)]
    for place, one in enumerate(whole):
        later = run_query(database.service, supplier_standings, None, NOON, after=one.sort_key)
        assert [other.code for other in later] == [other.code for other in whole[place + 1 :]]
    counts = run_query(database.service, counts_by_status, ["C", "D"])
    assert counts == {"C": {"PENDING": 3}, "D": {"ERRORED": 2}}


def test_recent_activity_has_a_number_for_each_five_minutes(ledger: Ledger, database: PostgresUrls) -> None:
    set_log_time(database, NOON)
    for command in (stage(), start(), CompleteImport(start=2, account_number="A-1")):
        ledger.execute(stream_of("S", "1"), command, at=NOON, by="t")
    follow(ledger)
    recent = run_query(database.service, recent_activity, ["S", "T"], NOON + timedelta(minutes=7))
    assert recent == {"S": (0,) * 10 + (1, 0), "T": (0,) * 12}
