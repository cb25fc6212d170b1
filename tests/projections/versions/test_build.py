"""Rows built in bulk, by several processes or event by event are the same; differences are found."""

from typing import Any

import pytest
from psycopg import Connection

from embedded.postgres import PostgresUrls
from eventstore.log import payloads
from eventstore.log.columns import log_head
from eventstore.log.ledger import Ledger
from eventstore.log.rows import rows_of, value_of
from projections import PLATFORM, PROJECTIONS
from projections.versions import build as build_module
from projections.versions.build import apply_events, build, make_tables
from projections.versions.compare import compare, verify
from projections.versions.projection import Projection
from projections.versions.versions import build_version, live_version, parked_streams, switch, version_lock, versions
from tests.support.following import follow
from tests.support.make import an_account
from tests.support.staging import SUPPLIER, stage
from workers.actors.process_imports import ImportProcessor

pytestmark = pytest.mark.usefixtures("history")
BY_NAME = {projection.name: projection for projection in PROJECTIONS}
STATUS = BY_NAME["import_status"]


def test_bulk_and_event_by_event_come_to_the_same(admin: Connection[Any], database: PostgresUrls) -> None:
    upto = log_head(admin)
    for schema in ("bulk", "single"):
        admin.execute(f"CREATE SCHEMA {schema}".encode())
    for projection in PROJECTIONS:
        for schema in ("bulk", "single"):
            make_tables(admin, projection, schema)
        assert build(database.admin, admin, projection, "bulk", upto=upto, jobs=2) == []
        for table in projection.tables:
            projection.index(admin, "single", table)
        for position in range(upto):
            assert apply_events(admin, projection, "single", after=position, upto=position + 1) == []
        assert compare(admin, projection, "single", "bulk", limit=3).first == (), projection.name
        assert compare(admin, projection, projection.home, "bulk", limit=3).first == (), projection.name


def test_payloads_that_are_read_a_few_at_a_time_come_to_the_same(
    admin: Connection[Any], history: Ledger, database: PostgresUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few large payloads are in memory at a time, in a rebuild and while following the log."""
    for module, name in ((build_module, "MAX_OPEN_BYTES"), (payloads, "MAX_OPEN_BYTES"), (build_module, "_LOAD_BYTES")):
        monkeypatch.setattr(module, name, 15_000)
    for number in range(50, 54):
        stage(history, an_account(SUPPLIER, number))
    follow(history)
    for projection in PROJECTIONS:
        assert verify(database.admin, admin, projection, limit=3).first == (), projection.name


@pytest.mark.parametrize("projection", [BY_NAME["account_search"], BY_NAME["platform"]], ids=lambda one: one.name)
def test_an_event_whose_digest_is_none_parks_its_own_stream_only(
    admin: Connection[Any], history: Ledger, database: PostgresUrls, projection: Projection
) -> None:
    """Other streams continue, in the live version and in a rebuild."""
    streams = [stage(history, an_account(SUPPLIER, number)) for number in (50, 51, 52)]
    ImportProcessor(history, worker=lambda: 7).process(streams)
    admin.execute("ALTER TABLE events DISABLE TRIGGER USER")
    admin.execute(
        "UPDATE events SET state = convert_to(regexp_replace(convert_from(state, 'UTF8'), '\"payload_sha256\":\"..',"
        " '\"payload_sha256\":\"zz'), 'UTF8') WHERE stream = %s AND topic = 'import_staged.v1'",
        (streams[1],),
    )
    follow(history)
    live = dict(admin.execute("SELECT name, stream FROM parked_streams").fetchall())
    assert live["account_search"] == streams[1]
    assert {*live.values()} == {streams[1]}
    behind = (
        "SELECT FROM projection_versions WHERE name = 'import_run' AND position < (SELECT max(position) FROM events)"
    )
    assert admin.execute(behind).fetchone() is None
    with version_lock(admin, projection):
        built = build_version(database.admin, admin, projection)
        assert parked_streams(admin, projection.name, built.version) == [streams[1]]


def test_an_account_whose_staging_cannot_be_read_is_parked_alone(
    admin: Connection[Any], history: Ledger, database: PostgresUrls
) -> None:
    """The event that names its payload is before the event that created the account."""
    streams = [stage(history, an_account(SUPPLIER, number)) for number in (50, 51, 52)]
    ImportProcessor(history, worker=lambda: 7).process(streams)
    admin.execute("ALTER TABLE events DISABLE TRIGGER USER")
    query = "UPDATE events SET state = '\\xff7b' WHERE stream = %s AND topic = 'import_staged.v1'"
    admin.execute(query, (streams[1],))
    with version_lock(admin, PLATFORM):
        built = build_version(database.admin, admin, PLATFORM)
        assert parked_streams(admin, PLATFORM.name, built.version) == [streams[1]]


_SELECT_LAST = """
SELECT position, stream, state FROM events AS e
WHERE topic = ANY(%s) AND NOT EXISTS (
    SELECT FROM events AS o WHERE o.stream = e.stream AND o.topic = 'subject_erased.v1')
ORDER BY position DESC LIMIT 1
"""


def test_a_poison_event_parks_its_own_stream_only(admin: Connection[Any], database: PostgresUrls) -> None:
    admin.execute("ALTER TABLE events DISABLE TRIGGER USER")
    change = "UPDATE events SET state = %s WHERE position = %s"
    for projection in PROJECTIONS:
        counting = f"SELECT count(*) FROM {projection.home}.{projection.tables[0]}"
        before = value_of(admin, counting)
        [(position, stream, state)] = rows_of(admin, _SELECT_LAST, projection.topics)
        admin.execute(change, (b"\xff{", position))
        with version_lock(admin, projection):
            built = build_version(database.admin, admin, projection)
            assert parked_streams(admin, projection.name, built.version) == [stream], projection.name
            switch(admin, projection, built.version)
        assert before - 1 <= value_of(admin, counting) <= before, projection.name
        assert verify(database.admin, admin, projection, limit=3).parked == 1, projection.name
        admin.execute(change, (state, position))


def test_what_a_killed_rebuild_leaves_behind_is_cleared_away(
    admin: Connection[Any], database: PostgresUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    with version_lock(admin, STATUS):
        monkeypatch.setattr("projections.versions.versions.build", interrupted)
        with pytest.raises(KeyboardInterrupt):
            build_version(database.admin, admin, STATUS)
        assert [one.version for one in versions(admin, "import_status")] == [1]
        monkeypatch.undo()
        admin.execute("CREATE SCHEMA import_status_v2")
        admin.execute("INSERT INTO projection_versions VALUES ('import_status', 2, 'building', 0, '')")
        assert build_version(database.admin, admin, STATUS).version == 2


def interrupted(*arguments: Any, **named: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.promise("accounts-market-data-become-platform")
def test_every_projection_has_rows_and_is_what_the_log_says(admin: Connection[Any], database: PostgresUrls) -> None:
    for projection in PROJECTIONS:
        assert verify(database.admin, admin, projection, limit=3).first == (), projection.name
        assert value_of(admin, f"SELECT count(*) FROM {projection.home}.{projection.tables[0]}") > 0, projection.name
        assert live_version(admin, projection.name).differences == 0, projection.name


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
    assert "(import_processed.v1) requires another row" in found.first[0].cause
