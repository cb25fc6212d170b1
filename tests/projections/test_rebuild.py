"""Projections that are made anew equal the live ones, whichever way they are made; differences are found and told."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import dict_row

from api.operation import example_of
from embedded.postgres import PostgresUrls
from eventstore.aggregates import participant, price_sheet
from eventstore.aggregates.organisation import CreateKey, RevokeKey
from eventstore.aggregates.refusals import CountRefusals
from eventstore.aggregates.run import CountRun, ReplayAccounts
from eventstore.aggregates.run import stream_of as run_stream
from eventstore.aggregates.supplier import ChangeSupplierStatus, ConfigureSupplier, CreateSupplier
from eventstore.aggregates.supplier import stream_of as supplier_stream
from eventstore.clock import now
from eventstore.log import copying
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import Payload
from projections import INLINE, MARKET, PLATFORM, PROJECTIONS
from projections.erasure import erase
from projections.history import account_streams
from projections.import_progress import IMPORT_PROGRESS
from projections.platform.change import participant_change, price_sheet_change
from projections.platform.writing import changing
from projections.versioning.build import _Workers, administrator, apply_events, build, make_tables
from projections.versioning.compare import compare, verify
from projections.versioning.following import Counter
from projections.versioning.healing import heal
from projections.versioning.install import install
from projections.versioning.projection import Projection
from projections.versioning.reading import Seen, head, read_ordered
from projections.versioning.versions import (
    NotPossible,
    alone,
    build_version,
    live_version,
    make_anew,
    parked_streams,
    switch,
    versions,
)
from schemas.market_participant import MarketParticipant
from schemas.price_sheet import PriceSheet
from schemas.shape import Shape
from tests.support.following import attach, follow
from tests.support.make import an_account, changed, encoded
from tests.support.staging import SUPPLIER, stage
from workers.process_imports import ImportProcessor
from workers.projector import Projector

BY_NAME = {projection.name: projection for projection in PROJECTIONS}
STATUS = BY_NAME["import_status"]
each = pytest.mark.parametrize("projection", PROJECTIONS, ids=lambda projection: projection.name)


@pytest.fixture
def history(ledger: Ledger, owner: Ledger, database: PostgresUrls) -> Ledger:
    """A log with something for every projection, an erased account included; all of them are up with it."""
    supplier, organisation = supplier_stream(SUPPLIER), "organisation/O"
    for command in (
        CreateSupplier(),
        ChangeSupplierStatus(status="paused"),
        ChangeSupplierStatus(status="ongoing", reason="r"),
        ConfigureSupplier(sends_customer_emails=True),
    ):
        ledger.execute(supplier, command, at=now(), by="t")
    key = CreateKey(key_id="k", secret_sha256="d", role="auditor", suppliers=("A",), rate_per_s=5)
    owner.execute(organisation, key, at=now(), by="t")
    owner.execute(organisation, RevokeKey(key_id="k"), at=now(), by="t")
    processor = ImportProcessor(ledger, worker=lambda: 7)
    streams = [stage(ledger, an_account(SUPPLIER, number)) for number in range(1, 6)]
    wrong = changed(an_account(SUPPLIER, 6), "999999.99", "transfer_balance")
    processor.process([*streams[:4], stage(ledger, wrong)])
    stage(ledger, wrong)
    for number in (1, 2):
        attach(ledger, database, number, is_cancelled=False)
    attach(ledger, database, 2, is_cancelled=True)
    import_market_records(ledger)
    counts = CountRefusals(since=now(), counts={"required@customers.[].family_name": 3})
    ledger.execute(f"refusals/{SUPPLIER}", counts, at=now(), by="t")
    send_runs(ledger, processor, wrong)
    administrators = Ledger(database.admin, views=INLINE)
    for number in (1, 5):
        external = an_account(SUPPLIER, number)["external_account_number"]
        assert erase(administrators, SUPPLIER, external, reason="r", at=now(), by="t") is not None
    administrators.close()
    follow(ledger)
    return ledger


def import_market_records(ledger: Ledger) -> None:
    """A participant with contacts, and a price sheet of it."""
    body = encoded(example_of("market_participant"))
    read, payload = Shape(MarketParticipant).read(body), Payload.of(body)
    ledger.execute(
        participant.stream_of(read.code),
        participant.ImportParticipant(payload_sha256=payload.sha256.hex()),
        at=now(),
        by="t",
        payload=payload,
        beside=changing(lambda recorded: participant_change(read, recorded)),
    )
    [written] = example_of("price_sheets")["price_sheets"]
    sheet, payload = Shape(PriceSheet).read(encoded(written)), Payload.of(encoded(written))
    stream = price_sheet.stream_of(sheet.market_participant_code, sheet.document_number)
    command = price_sheet.ImportPriceSheet(
        payload_sha256=payload.sha256.hex(),
        price_sheet_type="",
        active_from=sheet.active_from,
        article_prices=len(sheet.article_prices),
        is_unused=False,
        preceding_document_number="",
    )
    ledger.execute_many(
        {stream: command},
        at=now(),
        by="t",
        payloads={stream: payload},
        beside=changing(lambda recorded: price_sheet_change(sheet, recorded)),
    )


def send_runs(ledger: Ledger, processor: ImportProcessor, wrong: dict[str, Any]) -> None:
    """One account in two runs, sent again and replayed; refusals, and lines that were validated only."""
    erring = changed(wrong, "W-8", "external_account_number")
    processor.process([stage(ledger, erring, run="r1")])
    stage(ledger, changed(erring, "0.00", "transfer_balance"), run="r2")
    accounts = tuple(an_account(SUPPLIER, number)["external_account_number"] for number in (1, 2, 3))
    counts = {"required@customers.[].family_name": 1}
    count = CountRun(since=now(), mode="validate", valid=3, refused=1, counts=counts)
    ledger.execute(run_stream(SUPPLIER, "r2"), count, at=now(), by="t")
    ledger.execute(run_stream(SUPPLIER, "r2"), ReplayAccounts(accounts=accounts, mode="create"), at=now(), by="t")


@pytest.fixture
def admin(history: Ledger, database: PostgresUrls) -> Iterator[Connection[Any]]:
    with administrator(database.admin) as connection:
        yield connection


@each
def test_every_projection_has_rows_and_is_what_the_log_says(
    admin: Connection[Any], database: PostgresUrls, projection: Projection
) -> None:
    found = verify(database.admin, admin, projection, limit=3)
    assert found.first == ()
    rows = admin.execute(f"SELECT count(*) FROM {projection.home}.{projection.tables[0]}".encode()).fetchone()
    assert rows is not None
    assert rows[0] > 0
    assert live_version(admin, projection.name).differences == 0


@each
def test_bulk_and_event_by_event_come_to_the_same(
    admin: Connection[Any], database: PostgresUrls, projection: Projection
) -> None:
    for schema in ("bulk", "single"):
        admin.execute(f"CREATE SCHEMA {schema}".encode())
        make_tables(admin, projection, schema)
    upto = head(admin)
    assert build(database.admin, admin, projection, "bulk", upto=upto, jobs=2) == []
    for table in projection.tables:
        projection.index(admin, "single", table)
    for position in range(upto):
        assert apply_events(admin, projection, "single", after=position, upto=position + 1) == []
    assert compare(admin, projection, "single", "bulk", limit=3).first == ()
    assert compare(admin, projection, projection.home, "bulk", limit=3).first == ()


@pytest.mark.parametrize("which", ["live", "new"])
def test_a_switch_waits_for_a_vacuum_that_outlasts_its_patience_with_readers(
    admin: Connection[Any], database: PostgresUrls, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """A lock as a vacuum holds it: one try has to be enough, and readers and writers notice nothing meanwhile."""
    monkeypatch.setattr("projections.versioning.versions.SWITCH_TRIES", 1)
    monkeypatch.setattr("projections.versioning.versions.LOCK_TIMEOUT", "100ms")
    with alone(admin, STATUS), psycopg.connect(database.admin) as vacuum:
        built = build_version(database.admin, admin, STATUS)
        schema = STATUS.home if which == "live" else built.schema
        vacuum.execute(f"LOCK TABLE {schema}.import_status IN SHARE UPDATE EXCLUSIVE MODE".encode())
        with ThreadPoolExecutor(1) as pool:
            switching = pool.submit(switch, admin, STATUS, built.version)
            with pytest.raises(TimeoutError):
                switching.result(timeout=1.0)
            vacuum.execute("SELECT count(*) FROM import_status")
            vacuum.commit()
            assert switching.result(timeout=30) == head(admin)
    assert live_version(admin, STATUS.name).version == built.version


@each
def test_a_rebuild_is_switched_in_and_back_and_catches_up_each_time(
    admin: Connection[Any], history: Ledger, owner: Ledger, database: PostgresUrls, projection: Projection
) -> None:
    with alone(admin, projection):
        built = build_version(database.admin, admin, projection)
        assert (built.version, built.state) == (2, "ready")
        switch(admin, projection, 2)
        assert [(one.version, one.state) for one in versions(admin, projection.name)] == [(1, "retired"), (2, "live")]
    ImportProcessor(history, worker=lambda: 7).process([stage(history, an_account(SUPPLIER, 30))])
    another = CreateKey(key_id="k2", secret_sha256="d", role="auditor", suppliers=("A",), rate_per_s=5)
    owner.execute("organisation/O", another, at=now(), by="t")
    follow(history)
    assert verify(database.admin, admin, projection, limit=3).first == ()
    with alone(admin, projection):
        switch(admin, projection, 1)
    assert verify(database.admin, admin, projection, limit=3).first == ()
    names = admin.execute(
        "SELECT indexname FROM pg_indexes WHERE schemaname = %s AND tablename = %s",
        (projection.home, projection.tables[0]),
    ).fetchall()
    assert names


def test_a_version_from_before_a_migration_is_not_switched_in(admin: Connection[Any], database: PostgresUrls) -> None:
    """It lacks what the migration has added: the append would write to columns that are not there."""
    admin.execute("UPDATE projection_versions SET definition = ''")  # as versions before this one were noted
    with alone(admin, STATUS):
        built = build_version(database.admin, admin, STATUS)
        switch(admin, STATUS, built.version)
        install(admin, PROJECTIONS, None)
        with pytest.raises(NotPossible, match="was made by other code"):
            switch(admin, STATUS, 1)
    assert live_version(admin, STATUS.name).definition == STATUS.definition


def test_a_column_that_a_later_version_adds_does_not_stop_a_first_copy(
    admin: Connection[Any], history: Ledger, database: PostgresUrls
) -> None:
    view = next(one for one in INLINE if one.name == "account_record")
    admin.execute("ALTER TABLE account_record ADD COLUMN added_later text")
    copying._types.clear()  # as in a process that has copied nothing yet
    admin.execute("TRUNCATE account_record")
    found = read_ordered(admin, view.topics, after=0, upto=head(admin))
    seen = next(one for one in found if isinstance(one, Seen))
    view.load(admin, "public", {view.name: [view.project(seen.recorded, seen.position)]})
    assert admin.execute("SELECT count(*), max(added_later) FROM account_record").fetchone() == (1, None)


def test_the_service_may_write_to_what_was_switched_in(
    admin: Connection[Any], history: Ledger, database: PostgresUrls
) -> None:
    before = head(admin)
    for projection in PROJECTIONS:
        make_anew(database.admin, admin, projection, jobs=2)
        assert head(admin) == before  # nothing is said anew: no e-mail, no message
        assert [(one.version, one.state) for one in versions(admin, projection.name)] == [(2, "live")]
    ImportProcessor(history, worker=lambda: 7).process([stage(history, an_account(SUPPLIER, 31))])
    follow(history)
    for projection in PROJECTIONS:
        assert verify(database.admin, admin, projection, limit=3).first == ()


def test_a_row_that_differs_is_told_with_the_event_that_was_not_applied(
    admin: Connection[Any], database: PostgresUrls
) -> None:
    admin.execute("UPDATE import_status SET status = 'IN_PROGRESS', position = 9 WHERE account_number LIKE 'A-%'")
    found = verify(database.admin, admin, STATUS, limit=5)
    assert (found.changed, found.added, found.removed) == (4, 0, 0)
    assert set(found.first[0].columns) == {"status", "position"}
    assert "the row was last written at 9; the event at" in found.first[0].cause
    assert "(import_processed.v1) was not applied" in found.first[0].cause
    assert live_version(admin, "import_status").differences == 4
    admin.execute("DELETE FROM platform.customer")
    found = verify(database.admin, admin, PLATFORM, limit=2)
    assert found.added == 3
    assert "(import_processed.v1) says otherwise" in found.first[0].cause


def test_a_market_record_that_differs_is_told_with_its_event_and_healed(
    admin: Connection[Any], database: PostgresUrls
) -> None:
    admin.execute("UPDATE platform.market_participant_contact SET name = 'Somebody else'")
    admin.execute("DELETE FROM platform.price_sheet_article_price")
    found = verify(database.admin, admin, MARKET, limit=9)
    assert {one.table for one in found.first} == {"market_participant_contact", "price_sheet_article_price"}
    assert all("imported.v1) says otherwise" in one.cause for one in found.first)
    streams = [row["stream"] for row in admin.cursor(row_factory=dict_row).execute(_MARKET_STREAMS)]
    for projection in PROJECTIONS:
        heal(admin, projection, streams)
    assert verify(database.admin, admin, MARKET, limit=9).first == ()


_MARKET_STREAMS = "SELECT DISTINCT stream FROM events WHERE stream LIKE 'participant/%' OR stream LIKE 'price-sheet/%'"


def test_market_records_of_the_version_before_are_there_after_the_migration(
    admin: Connection[Any], database: PostgresUrls
) -> None:
    admin.execute("DELETE FROM projection_versions WHERE name = 'market'")
    for table in MARKET.tables:
        admin.execute(f"DELETE FROM platform.{table}".encode())
    install(admin, PROJECTIONS, None)
    assert verify(database.admin, admin, MARKET, limit=9).first == ()
    assert verify(database.admin, admin, PLATFORM, limit=9).first == ()


def test_healing_mends_one_account_and_leaves_the_others(admin: Connection[Any], database: PostgresUrls) -> None:
    admin.execute("UPDATE import_status SET status = 'WRONG'")
    admin.execute("UPDATE platform.customer SET family_name = 'WRONG'")
    admin.execute("UPDATE account_search SET names = 'wrong'")
    external = an_account(SUPPLIER, 2)["external_account_number"]
    for projection in PROJECTIONS:
        heal(admin, projection, account_streams(admin, SUPPLIER, external))
    for table, right in (("import_status", "status <> 'WRONG'"), ("account_search", "names <> 'wrong'")):
        rows = admin.execute(f"SELECT external_account_number FROM {table} WHERE {right}".encode()).fetchall()
        assert rows == [(external,)]
    rows = admin.execute(
        "SELECT DISTINCT external_account_number FROM platform.customer JOIN platform.service_account"
        " USING (account_number) WHERE family_name <> 'WRONG'"
    ).fetchall()
    assert rows == [(external,)]


def poison(admin: Connection[Any], projection: Projection) -> str:
    """Make the last event of a stream unreadable; the stream."""
    admin.execute("ALTER TABLE events DISABLE TRIGGER USER")
    row = admin.execute(
        "UPDATE events SET state = '\\xff7b' WHERE position = ("
        " SELECT max(position) FROM events AS e WHERE topic = ANY(%s) AND NOT EXISTS ("
        "  SELECT FROM events AS o WHERE o.stream = e.stream AND o.topic = 'subject_erased.v1')) RETURNING stream",
        (projection.topics,),
    ).fetchone()
    assert row is not None
    return str(row[0])


@each
def test_a_poison_event_parks_its_own_stream_only(
    admin: Connection[Any], database: PostgresUrls, projection: Projection
) -> None:
    table = f"{projection.home}.{projection.tables[0]}"
    before = admin.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
    stream = poison(admin, projection)
    with alone(admin, projection):
        built = build_version(database.admin, admin, projection)
        assert parked_streams(admin, projection.name, built.version) == [stream]
        switch(admin, projection, built.version)
    after = admin.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
    assert before is not None
    assert after is not None
    assert before[0] - 1 <= after[0] <= before[0]
    assert verify(database.admin, admin, projection, limit=3).parked == 1


def test_a_parked_stream_is_left_out_by_the_follower_and_goes_on_when_it_is_healed(
    admin: Connection[Any], history: Ledger, database: PostgresUrls
) -> None:
    search = BY_NAME["account_search"]
    good, bad = (an_account(SUPPLIER, number)["external_account_number"] for number in (40, 41))
    stage(history, an_account(SUPPLIER, 40))
    stream = stage(history, an_account(SUPPLIER, 41))
    row = admin.execute("SELECT content FROM payloads WHERE stream = %s", (stream,)).fetchone()
    assert row is not None
    admin.execute("UPDATE payloads SET content = '\\x01' WHERE stream = %s", (stream,))
    follow(history)
    assert parked_streams(admin, "account_search", 1) == [stream]
    found = admin.execute("SELECT external_account_number FROM account_search").fetchall()
    assert (good,) in found
    assert (bad,) not in found
    assert heal(admin, search, [stream]).is_parked
    admin.execute("UPDATE payloads SET content = %s WHERE stream = %s", (row[0], stream))
    assert heal(admin, search, [stream]).says == "goes on"
    assert parked_streams(admin, "account_search", 1) == []
    assert verify(database.admin, admin, search, limit=3).first == ()


def test_what_a_killed_rebuild_leaves_behind_is_cleared_away(
    admin: Connection[Any], database: PostgresUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    with alone(admin, STATUS):
        monkeypatch.setattr("projections.versioning.versions.build", interrupted)
        with pytest.raises(KeyboardInterrupt):
            build_version(database.admin, admin, STATUS)
        assert [one.version for one in versions(admin, "import_status")] == [1]
        monkeypatch.undo()
        admin.execute("CREATE SCHEMA import_status_v2")
        admin.execute("INSERT INTO projection_versions VALUES ('import_status', 2, 'building', 0, '')")
        assert build_version(database.admin, admin, STATUS).version == 2


def interrupted(*arguments: Any, **named: Any) -> None:
    raise KeyboardInterrupt


def test_what_cannot_be_switched_in_is_refused(admin: Connection[Any], database: PostgresUrls) -> None:
    with alone(admin, STATUS):
        with pytest.raises(NotPossible, match="no version 9"):
            switch(admin, STATUS, 9)
        switch(admin, STATUS, build_version(database.admin, admin, STATUS).version)
        admin.execute("UPDATE projection_versions SET retired_at = %s WHERE version = 1", (now() - timedelta(days=8),))
        with pytest.raises(NotPossible, match="more than 7 days ago"):
            switch(admin, STATUS, 1)
        with (
            administrator(database.admin) as other,
            pytest.raises(NotPossible, match="by somebody else"),
            alone(other, STATUS),
        ):
            pass
        build_version(database.admin, admin, STATUS)
        assert [one.version for one in versions(admin, "import_status")] == [2, 3]


def test_a_reader_holds_a_switch_up_and_neither_waits_for_ever(admin: Connection[Any], database: PostgresUrls) -> None:
    with alone(admin, STATUS), psycopg.connect(database.service) as reader:
        built = build_version(database.admin, admin, STATUS)
        reader.execute("SELECT count(*) FROM import_status")

        def tries(number: int) -> None:
            with psycopg.connect(database.service) as other:
                assert other.execute("SELECT count(*) FROM import_status").fetchone()
            if number == 2:
                reader.rollback()

        switch(admin, STATUS, built.version, tries=tries)
        assert live_version(admin, "import_status").version == built.version


def test_a_counter_that_was_built_without_a_stream_counts_it_when_it_is_healed(
    admin: Connection[Any], history: Ledger, database: PostgresUrls
) -> None:
    progress = BY_NAME["import_progress"]
    row = admin.execute("SELECT stream FROM events WHERE topic = 'import_errored.v1'").fetchone()
    assert row is not None
    stream = row[0]
    admin.execute("ALTER TABLE events DISABLE TRIGGER USER")
    last = admin.execute(
        "SELECT state, position FROM events WHERE stream = %s ORDER BY version DESC LIMIT 1", (stream,)
    ).fetchone()
    assert last is not None
    admin.execute("UPDATE events SET state = '\\xff7b' WHERE position = %s", (last[1],))
    make_anew(database.admin, admin, progress)
    assert parked_streams(admin, "import_progress", 2) == [stream]
    admin.execute("UPDATE events SET state = %s WHERE position = %s", (last[0], last[1]))
    assert heal(admin, progress, [stream]).says == "goes on"
    assert verify(database.admin, admin, progress, limit=3).first == ()


def test_a_projection_of_another_form_is_outdated_until_it_is_rebuilt(
    admin: Connection[Any], history: Ledger, database: PostgresUrls
) -> None:
    columns = IMPORT_PROGRESS.columns.replace("PRIMARY KEY (supplier, status)", "PRIMARY KEY (status, supplier)")

    def project(seen: Seen) -> Iterator[tuple[Any, ...]]:
        yield from IMPORT_PROGRESS.project(seen)

    other = Counter(
        "import_progress",
        events=IMPORT_PROGRESS.events,
        columns=columns,
        key=("supplier", "status"),
        folds_all=False,
        project=project,
    )
    position = live_version(admin, "import_progress").position
    stage(history, an_account(SUPPLIER, 50))
    with history.connection() as connection:
        assert not Projector(history, [other]).advance(connection, other)
    assert live_version(admin, "import_progress").position == position
    with alone(admin, other):
        switch(admin, other, build_version(database.admin, admin, other).version)
    assert verify(database.admin, admin, other, limit=3).first == ()
    with alone(admin, other), pytest.raises(NotPossible, match="made by other code"):
        switch(admin, other, 1)


def test_processes_do_work_that_cannot_be_pickled(database: PostgresUrls) -> None:
    """A restore or rebuild by two processes hung once a projection held a function without a name."""
    with administrator(database.admin) as connection:
        workers = _Workers(database.admin, connection, 2)
        assert sorted(workers.each(lambda _, item: item * 2, [1, 2, 3])) == [2, 4, 6]
