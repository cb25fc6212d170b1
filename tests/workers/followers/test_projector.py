"""The projector: projections that follow the log are kept up to date, each from its own position."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import CancelImport
from eventstore.log.ledger import Ledger
from projections import FOLLOWING
from projections.versions.build import is_of_content
from projections.versions.compare import verify
from projections.versions.install import migrate_all
from projections.versions.reading import read_ordered
from projections.views.import_progress import IMPORT_PROGRESS
from projections.views.throughput import THROUGHPUT
from telemetry.supervision import supervision
from tests.support.databases import Admin, append_large
from tests.support.following import behind, follow
from tests.support.make import NOON, stage
from tests.support.running import wait_for
from tests.support.threads import running
from workers.followers import projector
from workers.followers.projector import Projector


def counted(ledger: Ledger) -> dict[str, int]:
    with ledger.connection() as connection:
        rows = connection.execute("SELECT status, number FROM import_progress").fetchall()
    return {row["status"]: row["number"] for row in rows if row["number"]}


def test_projections_with_different_positions_share_one_read(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Afterwards one read of the log serves both."""
    reads: list[int] = []

    def reading(*arguments: Any, **named: Any) -> Any:
        reads.append(named["after"])
        return read_ordered(*arguments, **named)

    monkeypatch.setattr("workers.followers.projector.read_ordered", reading)
    with ledger.connection() as connection:
        ledger.execute("import/S/1", stage(), at=NOON, by="t")
        Projector(ledger, [IMPORT_PROGRESS]).advance(connection, IMPORT_PROGRESS)
        ledger.execute("import/S/2", stage(), at=NOON, by="t")
        projector = Projector(ledger, [IMPORT_PROGRESS, THROUGHPUT])
        for projection in (THROUGHPUT, IMPORT_PROGRESS):
            projector.advance(connection, projection)
        assert counted(ledger) == {"PENDING": 2}
        received = connection.execute("SELECT number FROM throughput WHERE span = 'hour'").fetchall()
    assert [row["number"] for row in received] == [2]
    assert reads == [0, 0]


def test_events_are_projected_once(ledger: Ledger) -> None:
    projector = Projector(ledger, [IMPORT_PROGRESS])
    ledger.execute("import/S/1", stage(), at=NOON, by="t")
    with ledger.connection() as connection:
        for _ in range(2):
            projector.advance(connection, IMPORT_PROGRESS)
            assert counted(ledger) == {"PENDING": 1}
        ledger.execute("import/S/1", CancelImport(), at=NOON, by="t")
        Projector(ledger, [IMPORT_PROGRESS]).advance(connection, IMPORT_PROGRESS)
    assert counted(ledger) == {"CANCELLED": 1}


@pytest.mark.promise("events-fill-no-reader")
def test_large_events_are_projected_in_parts_and_all_that_follow(ledger: Ledger, database: PostgresUrls) -> None:
    append_large(database, 40)
    ledger.execute("import/S/1", stage(), at=NOON, by="t")
    follow(ledger)
    assert counted(ledger) == {"PENDING": 1}
    with ledger.connection() as connection:
        assert connection.execute("SELECT DISTINCT stream FROM parked_streams").rowcount == 40


def test_a_projector_that_wakes_late_projects_nothing_again(ledger: Ledger, database: PostgresUrls) -> None:
    """It has read the log, hangs, and another one has projected some of these events meanwhile."""
    late, other = Projector(ledger, [IMPORT_PROGRESS]), Projector(ledger, [IMPORT_PROGRESS])
    for number in (1, 2):
        ledger.execute(f"import/S/{number}", stage(), at=NOON, by="t")
    with ledger.connection() as connection, ledger.connection() as waiting, ThreadPoolExecutor(1) as pool:
        with connection.transaction():
            other.advance(connection, IMPORT_PROGRESS)
            ledger.execute("import/S/1", CancelImport(), at=NOON, by="t")
            assert late._read_after(waiting, 0).last_position == 3
            waking = pool.submit(late.advance, waiting, IMPORT_PROGRESS)
            wait_for(lambda: is_blocked(database, waiting.info.backend_pid), "it waits for the version's row")
        waking.result(timeout=30)
        assert counted(ledger) == {"PENDING": 1, "CANCELLED": 1}
        ledger.execute("import/S/2", CancelImport(), at=NOON, by="t")
        for projector in (late, other):
            projector.advance(connection, IMPORT_PROGRESS)
            assert counted(ledger) == {"CANCELLED": 2}


def is_blocked(database: PostgresUrls, pid: int) -> bool:
    with psycopg.connect(database.admin) as admin:
        return admin.execute("SELECT FROM pg_locks WHERE pid = %s AND NOT granted", (pid,)).rowcount > 0


def test_large_payloads_are_projected_in_small_batches(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projector, "BATCH_BYTES", -1)
    for number in range(3):
        ledger.execute(f"import/S/{number}", stage(), at=NOON, by="t")
    following = Projector(ledger, [IMPORT_PROGRESS])
    with ledger.connection() as connection:
        has_more = [following.advance(connection, IMPORT_PROGRESS) for _ in range(4)]
    assert has_more == [True, True, False, False]
    assert counted(ledger) == {"PENDING": 3}


REFUSING = """
CREATE FUNCTION refusing() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.supplier LIKE '{supplier}' THEN RAISE EXCEPTION 'no' USING ERRCODE = '{code}'; END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER refusing BEFORE INSERT ON throughput FOR EACH ROW EXECUTE FUNCTION refusing();
"""
FAILURES = {
    "a version is gone": (
        "DELETE FROM projection_versions WHERE name = 'throughput'",
        "",
        "Run `importledger migrate`",
    ),
    "a right is missing": (
        "REVOKE INSERT ON throughput FROM importledger_relay",
        "GRANT INSERT ON throughput TO importledger_relay",
        "permission denied for table throughput",
    ),
    "a table is missing": (
        "ALTER TABLE throughput RENAME TO elsewhere",
        "ALTER TABLE elsewhere RENAME TO throughput",
        'relation "public.throughput" does not exist',
    ),
    "the disk is full": (REFUSING.format(supplier="%", code="53100"), "DROP TRIGGER refusing ON throughput", "no"),
}
"""Statement that causes a failure, statement that ends it ("" for `migrate`), and a part of its error."""


@pytest.mark.promise("part-role-fails-named")
@pytest.mark.parametrize(("breaks", "mends", "reason"), FAILURES.values(), ids=FAILURES)
def test_a_failure_that_no_event_causes_stops_its_projection_only(
    ledger: Ledger,
    database: PostgresUrls,
    admin: Admin,
    monkeypatch: pytest.MonkeyPatch,
    breaks: str,
    mends: str,
    reason: str,
) -> None:
    """No stream is parked, the trouble has a name, and it ends with its cause."""
    monkeypatch.setattr(projector, "PAUSE_S", 0.05)
    monkeypatch.setattr("telemetry.supervision.FIRST_PAUSE_S", 0.1)
    for number in range(3):
        ledger.execute(f"import/S/{number}", stage(), at=NOON, by="t")
    admin.execute(breaks.encode())
    with running(Projector(ledger, FOLLOWING).start):
        wait_for(lambda: behind(admin) == {"throughput"}, "the others have projected all events")
        wait_for(lambda: supervision.troubles() != [], "the trouble is known")
        [trouble] = supervision.troubles()
        assert (trouble.name, reason in trouble.error) == ("projection throughput", True), trouble
        if mends:
            admin.execute(mends.encode())
        else:
            migrate_all(database.admin, service_role="importledger")
        wait_for(lambda: behind(admin) == set(), "it continues")
        wait_for(lambda: supervision.troubles() == [], "the trouble has ended")
    assert admin.execute("SELECT FROM parked_streams").rowcount == 0
    assert verify(database.admin, admin, THROUGHPUT, limit=1).first == ()


def test_an_event_causes_no_lack_of_space_or_time() -> None:
    lacks, of_content = {"53100", "53200", "57014", "55P03", "40P01", "58030"}, {"22003", "23514", "54000"}
    assert {code for code in lacks | of_content if is_of_content(psycopg.errors.lookup(code)())} == of_content


def test_a_failure_that_an_event_causes_parks_its_stream(ledger: Ledger, admin: Admin) -> None:
    for stream in ("import/S/1", "import/BAD/1", "import/S/2"):
        ledger.execute(stream, stage(), at=NOON, by="t")
    admin.execute(REFUSING.format(supplier="BAD", code="23514").encode())
    with running(Projector(ledger, FOLLOWING).start):
        wait_for(lambda: behind(admin) == set(), "all go on")
    parked = admin.execute("SELECT name, stream FROM parked_streams").fetchall()
    assert parked == [("throughput", "import/BAD/1")]
