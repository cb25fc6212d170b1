"""Versions are switched in and back while others read and write; a version of another form is refused."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from embedded.postgres import PostgresUrls
from eventstore.aggregates.organisation import CreateKey
from eventstore.aggregates.supplier import CreateSupplier
from eventstore.clock import now
from eventstore.log.columns import log_head
from eventstore.log.ledger import Ledger
from projections import INLINE, PROJECTIONS
from projections.versions.build import administrator
from projections.versions.compare import verify
from projections.versions.following import Counter
from projections.versions.reading import Seen
from projections.versions.versions import NotPossible, build_version, live_version, switch, version_lock, versions
from projections.views.import_progress import IMPORT_PROGRESS
from tests.support.following import follow
from tests.support.make import an_account
from tests.support.running import wait_for
from tests.support.staging import SUPPLIER, stage
from workers.actors.process_imports import ImportProcessor
from workers.followers.projector import Projector

pytestmark = pytest.mark.usefixtures("history")
BY_NAME = {projection.name: projection for projection in PROJECTIONS}
STATUS = BY_NAME["import_status"]


@pytest.mark.parametrize("which", ["live", "new"])
def test_a_switch_waits_for_a_vacuum_that_outlasts_its_patience_with_readers(
    admin: Connection[Any], database: PostgresUrls, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """Holds a lock like a vacuum: one attempt must be enough, and readers and writers must not wait."""
    monkeypatch.setattr("projections.versions.versions.SWITCH_TRIES", 1)
    monkeypatch.setattr("eventstore.log.locks.WAIT_MS", 100)
    with version_lock(admin, STATUS), psycopg.connect(database.admin) as vacuum:
        built = build_version(database.admin, admin, STATUS)
        schema = STATUS.home if which == "live" else built.schema
        vacuum.execute(f"LOCK TABLE {schema}.import_status IN SHARE UPDATE EXCLUSIVE MODE".encode())
        with ThreadPoolExecutor(1) as pool:
            switching = pool.submit(switch, admin, STATUS, built.version)
            with pytest.raises(TimeoutError):
                switching.result(timeout=1.0)
            vacuum.execute("SELECT count(*) FROM import_status")
            vacuum.commit()
            assert switching.result(timeout=30) == log_head(admin)
    assert live_version(admin, STATUS.name).version == built.version


def test_a_switch_that_falls_behind_while_it_waits_lets_writers_go_first(
    admin: Connection[Any], database: PostgresUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader locks the view's table while events are appended that do not write to it."""
    monkeypatch.setattr("projections.versions.versions.CLOSE", 3)
    monkeypatch.setattr("eventstore.log.locks.WAIT_MS", 20_000)
    tries: list[int] = []
    waiting = "SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
    with version_lock(admin, STATUS), psycopg.connect(database.admin) as reader, ThreadPoolExecutor(1) as pool:
        built = build_version(database.admin, admin, STATUS)
        reader.execute("SELECT FROM import_status")
        switching = pool.submit(switch, admin, STATUS, built.version, tries=tries.append)
        with psycopg.connect(database.admin, autocommit=True) as other:
            wait_for(lambda: bool(other.execute(waiting).rowcount), "it waits for the reader")
        with closing(Ledger(database.service, views=[view for view in INLINE if view is not STATUS])) as ledger:
            for number in range(4):
                ledger.execute(f"supplier/{number}", CreateSupplier(), at=now(), by="t")
        reader.rollback()
        assert switching.result(timeout=30) == log_head(admin)
    assert tries == [1]


def test_a_rebuild_is_switched_in_and_back_and_catches_up_each_time(
    admin: Connection[Any], history: Ledger, owner: Ledger, database: PostgresUrls
) -> None:
    for projection in PROJECTIONS:
        name = projection.name
        with version_lock(admin, projection):
            built = build_version(database.admin, admin, projection)
            assert (built.version, built.state) == (2, "ready"), name
            switch(admin, projection, 2)
        assert [(one.version, one.state) for one in versions(admin, name)] == [(1, "retired"), (2, "live")]
    ImportProcessor(history, worker=lambda: 7).process([stage(history, an_account(SUPPLIER, 30))])
    another = CreateKey(key_id="k2", secret_sha256="d", role="auditor", suppliers=("A",), rate_per_s=5)
    owner.execute("organisation/O", another, at=now(), by="t")
    follow(history)
    indexed = "SELECT FROM pg_indexes WHERE schemaname = %s AND tablename = %s"
    for projection in PROJECTIONS:
        assert verify(database.admin, admin, projection, limit=3).first == (), projection.name
        with version_lock(admin, projection):
            switch(admin, projection, 1)
        assert verify(database.admin, admin, projection, limit=3).first == (), projection.name
        assert admin.execute(indexed, (projection.home, projection.tables[0])).rowcount, projection.name


def test_what_cannot_be_switched_in_is_refused(admin: Connection[Any], database: PostgresUrls) -> None:
    with version_lock(admin, STATUS):
        with pytest.raises(NotPossible, match="no version 9"):
            switch(admin, STATUS, 9)
        switch(admin, STATUS, build_version(database.admin, admin, STATUS).version)
        admin.execute("UPDATE projection_versions SET retired_at = %s WHERE version = 1", (now() - timedelta(days=8),))
        with pytest.raises(NotPossible, match="more than 7 days ago"):
            switch(admin, STATUS, 1)
        with (
            administrator(database.admin) as other,
            pytest.raises(NotPossible, match="by another process"),
            version_lock(other, STATUS),
        ):
            pass
        build_version(database.admin, admin, STATUS)
        assert [one.version for one in versions(admin, "import_status")] == [2, 3]


def test_a_reader_holds_a_switch_up_and_neither_waits_for_ever(admin: Connection[Any], database: PostgresUrls) -> None:
    with version_lock(admin, STATUS), psycopg.connect(database.service) as reader:
        built = build_version(database.admin, admin, STATUS)
        reader.execute("SELECT count(*) FROM import_status")

        def tries(number: int) -> None:
            with psycopg.connect(database.service) as other:
                assert other.execute("SELECT count(*) FROM import_status").fetchone()
            if number == 2:
                reader.rollback()

        switch(admin, STATUS, built.version, tries=tries)
        assert live_version(admin, "import_status").version == built.version


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
        folds_all=False,
        project=project,
    )
    position = live_version(admin, "import_progress").position
    stage(history, an_account(SUPPLIER, 50))
    with history.connection() as connection:
        assert not Projector(history, [other]).advance(connection, other)
    assert live_version(admin, "import_progress").position == position
    with version_lock(admin, other):
        switch(admin, other, build_version(database.admin, admin, other).version)
    assert verify(database.admin, admin, other, limit=3).first == ()
    with version_lock(admin, other), pytest.raises(NotPossible, match="built by other code"):
        switch(admin, other, 1)
