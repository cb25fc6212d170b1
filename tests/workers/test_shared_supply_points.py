"""A supply point that two live accounts of a supplier have is a warning."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from eventstore.aggregates.import_process import ImportErrored, ImportPostponed, ImportProcessed
from eventstore.aggregates.supplier import ConfigureSupplier, CreateSupplier
from eventstore.aggregates.supplier import stream_of as supplier_stream
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from schemas.submission import read_submission
from tests.support.make import an_account, changed, encoded
from tests.support.staging import SUPPLIER, stage
from workers.actors.process_imports import ImportProcessor
from workers.actors.references import SELECT_LIVE, References, references_of

CODE = "supply_point_on_other_account"
POINT = ("supply_addresses", 0, "supply_points", 0)
MALO = an_account(SUPPLIER, 1)["supply_addresses"][0]["supply_points"][0]["identifier"]


@pytest.fixture
def processor(ledger: Ledger) -> ImportProcessor:
    ledger.execute(supplier_stream(SUPPLIER), CreateSupplier(), at=now(), by="t")
    return ImportProcessor(ledger, worker=lambda: 7)


def account(number: int, end: str | None) -> dict[str, Any]:
    """An account with the same supply point as others, and the day on which its supply ends."""
    made = changed(an_account(SUPPLIER, number), MALO, *POINT, "identifier")
    identifiers = [MALO, made["supply_addresses"][0]["supply_points"][1]["identifier"]]
    return changed(changed(made, identifiers, "ledgers", 0, "identifiers"), end, *POINT, "supply_end_date")


def events(ledger: Ledger, processor: ImportProcessor, *accounts: dict[str, Any]) -> list[Any]:
    streams = [stage(ledger, account) for account in accounts]
    processor.process(streams)
    return [ledger.history(stream)[-1].event for stream in streams]


def is_warned(event: Any) -> bool:
    assert isinstance(event, ImportProcessed)
    return f"{CODE}@{'.'.join(map(str, POINT))}.identifier" in event.warnings


@pytest.mark.promise("implausible-least-warning-births")
def test_one_supply_point_on_two_live_accounts_is_a_warning(ledger: Ledger) -> None:
    ends = [(None, "2099-12-31", True), ("2024-12-31", None, False), (None, "2024-12-31", False)]
    for number, (is_one_batch, (first, second, warned)) in enumerate(product((True, False), ends)):
        code = f"S{number}"  # accounts of other suppliers do not count
        ledger.execute(supplier_stream(code), CreateSupplier(), at=now(), by="t")
        accounts = [account(1, first) | {"import_supplier": code}, account(2, second) | {"import_supplier": code}]
        batches = [accounts] if is_one_batch else [[each] for each in accounts]
        processor = ImportProcessor(ledger, worker=lambda: 7)
        made = [event for batch in batches for event in events(ledger, processor, *batch)]
        assert list(map(is_warned, made)) == [False, warned], (first, second, is_one_batch)


def test_it_ends_the_import_of_a_strict_supplier(ledger: Ledger, processor: ImportProcessor) -> None:
    events(ledger, processor, account(1, None))
    ledger.execute(supplier_stream(SUPPLIER), ConfigureSupplier(strictness="strict"), at=now(), by="t")
    [event] = events(ledger, processor, account(2, None))
    assert isinstance(event, ImportErrored)
    assert any(name.startswith(CODE) for name in event.problems)


def test_accounts_processed_at_the_same_moment_get_no_warning_and_later_ones_do(
    ledger: Ledger, processor: ImportProcessor
) -> None:
    """Two workers look up the supply point before either has written; see `workers.actors.references`."""
    suppliers = References(ledger).settings({SUPPLIER})
    submissions = [read_submission(encoded(account(number, None))) for number in (1, 2)]
    accounts = [references_of(submission.account, now().date(), is_dry_run=False) for submission in submissions]
    assert [References(ledger).findings([referred], suppliers)[0].errors for referred in accounts] == [(), ()]
    codes = [
        problem.code
        for referred in accounts
        for problem in References(ledger).findings([referred], suppliers)[0].warnings
    ]
    assert CODE not in codes
    events(ledger, processor, account(1, None), account(2, None))
    [third] = events(ledger, processor, account(3, None))
    assert is_warned(third)


@pytest.mark.parametrize(("root", "ending"), [("file:///nowhere/at/all", ImportPostponed), ("tmp_path", ImportErrored)])
def test_an_account_that_is_not_created_has_no_supply_point(
    ledger: Ledger, processor: ImportProcessor, tmp_path: Path, root: str, ending: type[Any]
) -> None:
    """The first of two in a batch lacks its documents, or their store does not answer."""
    root = root.replace("tmp_path", tmp_path.as_uri())
    settings = ConfigureSupplier(documents_root=root, documents_check="require")
    ledger.execute(supplier_stream(SUPPLIER), settings, at=now(), by="t")
    first, second = events(ledger, processor, account(1, None), account(2, None) | {"statements": []})
    assert isinstance(first, ending)
    assert not is_warned(second)


def test_a_dry_run_has_no_supply_point(ledger: Ledger, processor: ImportProcessor) -> None:
    """Its warnings do not depend on the other imports of its batch."""
    streams = [stage(ledger, account(1, None), is_dry_run=True), stage(ledger, account(2, None))]
    processor.process(streams)
    assert not is_warned(ledger.history(streams[1])[-1].event)
    third = stage(ledger, account(3, None), is_dry_run=True)
    processor.process([third])
    [warned] = [name for name in ledger.history(third)[-1].event.warnings if name.startswith(CODE)]  # type: ignore[attr-defined]
    assert warned


def test_the_look_up_stops_at_the_first_account_of_a_supply_point(ledger: Ledger, processor: ImportProcessor) -> None:
    """Otherwise a source with the same supply point in all accounts would slow down batch by batch."""
    events(ledger, processor, *(account(number, None) for number in range(1, 31)))
    parameters = ([SUPPLIER], [MALO], now().date())
    with ledger.connection() as connection:
        row = connection.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + SELECT_LIVE, parameters).fetchone()
    assert row is not None
    read = {node.get("Relation Name"): node["Actual Rows"] for node in nodes(row["QUERY PLAN"][0]["Plan"])}
    assert (read["supply_point"], read["service_account"]) == (1, 1)


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Nodes of a query plan."""
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)
