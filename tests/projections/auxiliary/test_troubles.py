"""Each process reports its troubles; troubles that are not repeated are over."""

from embedded.postgres import PostgresUrls
from eventstore.log.ledger import Ledger
from projections.auxiliary.troubles import read_troubles, report_troubles, reported_troubles, start_reporting
from telemetry.supervision import Supervision, supervision
from tests.support.databases import Admin
from tests.support.rows import run_query
from tests.support.running import wait_for


def names(ledger: Ledger) -> list[tuple[str, str, bool]]:
    with ledger.connection() as connection:
        return [(one.process, one.name, one.is_waiting) for one in reported_troubles(connection)]


def test_a_process_replaces_what_it_has_reported_and_leaves_that_of_others(ledger: Ledger) -> None:
    here = Supervision()
    here.failed("relay", ValueError("no"))
    here.failed("sealer", ValueError("no"), is_waiting=True)
    with ledger.connection() as connection:
        report_troubles(connection, "a", here.troubles())
        report_troubles(connection, "b", here.troubles())
        here.works("relay")
        report_troubles(connection, "a", here.troubles())
    assert sorted(names(ledger)) == [("a", "sealer", True), ("b", "relay", False), ("b", "sealer", True)]


def test_a_trouble_of_a_process_that_is_gone_is_over(ledger: Ledger, admin: Admin) -> None:
    here = Supervision()
    here.failed("relay", ValueError("no"))
    report_troubles(admin, "gone", here.troubles())
    admin.execute("UPDATE troubles SET seen_at = seen_at - interval '21 seconds'")
    assert reported_troubles(admin) == []


def test_secrets_in_an_error_are_not_reported(database: PostgresUrls, admin: Admin) -> None:
    here = Supervision()
    here.failed("relay", ValueError("key ilk_0123456789abcdef0123456789abcdef"))
    report_troubles(admin, "a", here.troubles())
    [trouble] = run_query(database.service, read_troubles)
    assert "0123456789abcdef" not in trouble.error


def test_a_process_reports_its_troubles_from_their_beginning_to_their_end(ledger: Ledger) -> None:
    start_reporting(ledger, "here")
    supervision.failed("work", ValueError("no"))
    wait_for(lambda: names(ledger) == [("here", "work", False)], "it is reported")
    supervision.works("work")
    wait_for(lambda: names(ledger) == [], "it is over")
