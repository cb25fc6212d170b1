"""The intake of a log that differs from its signed checkpoints stops until an operator decides."""

import asyncio
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest
from eventsourcing.persistence import StoredEvent

from embedded.postgres import PostgresUrls
from eventstore.errors import IntakeStopped, NotCompared, StoreUnavailable
from eventstore.log.intake_stop import (
    NOT_COMPARED,
    STOPPED,
    IntakeStop,
    end_stop,
    intake_stop,
    is_compared,
    note_comparison,
)
from eventstore.log.recorder import LedgerDatastore, LedgerRecorder
from eventstore.operations.guards import guards_off
from eventstore.proof.checkpoints import CheckpointCopies, CopiesUnavailable
from eventstore.proof.sealing import LogDiffers, NoCopies, SealRefused, continue_from
from tests.support.databases import drop, renamed
from tests.support.make import NOON, stage
from tests.support.sealed_log import KEY, OTHER_KEY, Log
from tests.support.standby import cancel_waiting_commits, missing_standby


@pytest.fixture
def service(log: Log) -> Iterator[psycopg.Connection[Any]]:
    """Return a connection of the service's role."""
    with psycopg.connect(log.urls.service, autocommit=True) as connection:
        yield connection


def refused(log: Log) -> None:
    """Seal a log that differs."""
    with pytest.raises(LogDiffers):
        log.seal()


def put_back(log: Log) -> None:
    """Restore an older backup; the place outside has a checkpoint of a longer log."""
    log.cut(450)


def put_back_and_gone_on_with(log: Log) -> None:
    log.cut(450)
    log.add(1001, 1100)


def continued_elsewhere(log: Log) -> None:
    """Make this the former primary of a log that another server has continued."""
    note = KEY.sign(470, bytes(32), NOON, branch=1, continues="continues from 450, lost 451–600: x")
    for size in (0, 470):
        log.outside.keep(size, note, branch=1)


def without_its_end(log: Log) -> None:
    """Cut the log without copies outside: the database itself has a longer checkpoint."""
    log.admin.execute("DELETE FROM events WHERE position > 599")
    for size in (300, 600):
        (log.folder / "outside" / f"{size:020}.note").unlink()


def append(log: Log, refusal: type[StoreUnavailable] = IntakeStopped) -> None:
    """Append in each way, in a process that was started after the stop."""
    with log.ledger() as ledger, closing(LedgerDatastore(log.urls.service, connections=1)) as datastore:

        async def begin() -> int:
            return await ledger.begin("import/S/1", stage(), at=NOON, by="t")

        with pytest.raises(refusal):
            ledger.execute("import/S/1", stage(), at=NOON, by="t")
        with pytest.raises(refusal):
            ledger.execute_many({"import/S/1": stage(), "import/S/2": stage()}, at=NOON, by="t")
        with pytest.raises(refusal):
            asyncio.run(begin())
        with pytest.raises(refusal):
            LedgerRecorder(datastore).insert_events([StoredEvent("import/S/1", 1, "t", b"{}")])


@pytest.mark.promise("log-shorter-checkpoints-another")
@pytest.mark.parametrize("differ", [put_back, put_back_and_gone_on_with, continued_elsewhere, without_its_end])
def test_a_shorter_or_another_log_takes_nothing_in(log: Log, service: Any, differ: Any) -> None:
    differ(log)
    refused(log)
    head = log.admin.execute("SELECT max(position) FROM events").fetchone()
    append(log)
    assert log.admin.execute("SELECT max(position) FROM events").fetchone() == head
    assert isinstance(intake_stop(service), IntakeStop)


def test_intake_continues_when_the_log_is_continued_openly(log: Log, service: Any) -> None:
    put_back(log)
    refused(log)
    with pytest.raises(SealRefused, match="--continue-from must be 300 or later"):
        continue_from(service, KEY, log.outside, 299, "put back", at=NOON)
    assert intake_stop(service) is not None
    continue_from(service, KEY, log.outside, 450, "put back", at=NOON, by="operator:anna")
    assert intake_stop(service) is None
    log.add(1001, 1010)
    assert log.seal().checkpoint.branch == 1
    [(by, reason)] = log.admin.execute("SELECT ended_by, ended_for FROM intake_stops").fetchall()
    assert (by, reason) == ("operator:anna", "continues from 450, lost 451–600: put back")


def test_what_was_accepted_stops_nothing_again_and_is_not_sealed(log: Log, service: Any) -> None:
    put_back(log)
    refused(log)
    assert end_stop(service, by="operator:anna", reason="a copy for the tests")
    log.add(1001, 1010)
    refused(log)
    assert intake_stop(service) is None
    log.outside.keep(700, KEY.sign(700, bytes(32), NOON))  # the log that it was copied from is signed again
    refused(log)
    stop = intake_stop(service)
    assert stop is not None
    assert stop.size == 700
    append(log)


def test_one_stop_is_in_force_at_a_time(log: Log, service: Any) -> None:
    put_back(log)
    refused(log)
    log.outside.keep(700, KEY.sign(700, bytes(32), NOON))
    refused(log)
    assert log.admin.execute("SELECT size FROM intake_stops").fetchall() == [(600,)]
    assert end_stop(service, by="t", reason="x")
    assert not end_stop(service, by="t", reason="x")


def test_a_checkpoint_that_the_key_has_not_signed_stops_nothing(log: Log, service: Any) -> None:
    for size in (700, 800):
        log.outside.keep(size, OTHER_KEY.sign(size, bytes(32), NOON))
        with pytest.raises(SealRefused, match="signed"):
            log.seal()
    assert intake_stop(service) is None
    log.add(301, 310)


@pytest.mark.parametrize("differ", [put_back, put_back_and_gone_on_with, continued_elsewhere, without_its_end])
def test_a_log_that_differs_takes_nothing_in_where_its_sealing_key_is_missing(
    log: Log, service: Any, differ: Any
) -> None:
    """As after a restore without the key: a start creates a new one, and the log has the former verifier key."""
    with pytest.raises(SealRefused, match="Check that the sealing key is"):
        log.seal(OTHER_KEY)
    assert intake_stop(service) is None
    differ(log)
    with pytest.raises(LogDiffers):
        log.seal(OTHER_KEY)
    append(log)


def test_the_stored_tree_does_not_grow_before_a_seal_is_refused(log: Log) -> None:
    log.outside.keep(610, KEY.sign(610, bytes(32), NOON))
    log.add(301, 350)
    tree = log.admin.execute("SELECT index, length(hashes) FROM log_tiles WHERE level = 0 ORDER BY 1 DESC").fetchone()
    refused(log)
    grown = log.admin.execute("SELECT index, length(hashes) FROM log_tiles WHERE level = 0 ORDER BY 1 DESC").fetchone()
    assert tree == (2, (600 - 512) * 32)
    assert grown == (2, (610 - 512) * 32)


def test_a_stop_that_was_switched_off_is_named(log: Log, service: Any) -> None:
    log.admin.execute("ALTER TABLE events DISABLE TRIGGER events_wait_while_stopped")
    assert any("events_wait_while_stopped on events" in sentence for sentence in guards_off(service))


def test_a_copy_outside_under_another_name_is_refused_and_stops_nothing(log: Log, service: Any) -> None:
    """Otherwise later checkpoints would seem to have copies already."""
    log.outside.keep(9_999, log.outside.note(600))
    with pytest.raises(SealRefused, match=r"checkpoint of 9,999 events must be that checkpoint. It is one of 600"):
        log.seal()
    assert intake_stop(service) is None


@pytest.mark.promise("commit-standby-never-acknowledged")
def test_a_checkpoint_of_events_that_the_primary_alone_has_is_not_kept_outside(log: Log) -> None:
    """After a failover without them, the copy would stop the intake."""
    before = [*log.outside.notes()]
    log.add(1001, 1010)
    with missing_standby(log.urls) as connection, ThreadPoolExecutor(1) as pool:
        sealing = pool.submit(log.seal)
        while not sealing.done():
            cancel_waiting_commits(connection, 0)
        with pytest.raises(StoreUnavailable):
            sealing.result()
        assert len(log.checkpoints()) == len(before) + 1, "it is visible in the database"
    assert [*log.outside.notes()] == before
    assert not log.seal().is_new
    assert len([*log.outside.notes()]) == len(before) + 1


def start_again(log: Log) -> None:
    """Change the recorded start of the server, as a restart does."""
    log.admin.execute("UPDATE log_comparisons SET started_at = started_at - interval '1 second'")


@pytest.mark.promise("start-database-failover-copy")
def test_nothing_is_appended_before_the_log_was_compared_since_the_server_has_started(log: Log, service: Any) -> None:
    start_again(log)
    append(log, NotCompared)
    log.seal()
    assert is_compared(service)
    log.add(301, 310)


def test_an_older_log_takes_nothing_in_before_and_after_its_first_comparison(log: Log) -> None:
    start_again(log)
    put_back(log)
    append(log, NotCompared)
    refused(log)
    append(log, IntakeStopped)


def test_a_log_that_cannot_be_compared_yet_takes_nothing_in(log: Log, service: Any) -> None:
    """The place outside is unavailable at the start. An outage later stops nothing."""
    start_again(log)
    there, log.outside = log.outside, CheckpointCopies("file:///dev/null/checkpoints")
    with pytest.raises(CopiesUnavailable):
        log.seal()
    append(log, NotCompared)
    log.outside = there
    log.seal()
    log.outside = CheckpointCopies("file:///dev/null/checkpoints")
    with pytest.raises(CopiesUnavailable):
        log.seal()
    log.add(301, 310)


@pytest.mark.promise("start-database-failover-copy")
def test_a_log_whose_copies_outside_are_gone_takes_nothing_in_until_an_operator_accepts_it(log: Log) -> None:
    copies = len([*log.outside.notes()])
    shutil.rmtree(log.folder / "outside")
    log.seal()
    assert len([*log.outside.notes()]) == copies, "while it is known that this is the newest log, copies are made again"
    put_back(log)
    shutil.rmtree(log.folder / "outside")
    start_again(log)
    with pytest.raises(NoCopies, match="keeps no checkpoint, and the log has one of"):
        log.seal()
    append(log, NotCompared)
    assert note_comparison(log.admin, by="operator", reason="the disk is lost")
    log.seal()
    assert [*log.outside.notes()]
    log.add(301, 310)


@pytest.mark.promise("start-database-failover-copy")
def test_a_copy_of_a_database_or_of_its_events_is_not_compared(log: Log, postgres: PostgresUrls) -> None:
    copy = PostgresUrls(renamed(log.urls.service, "copied_log"), renamed(log.urls.admin, "copied_log"))
    name = psycopg.conninfo.conninfo_to_dict(log.urls.admin)["dbname"]
    log.admin.close()
    with psycopg.connect(renamed(postgres.admin, "postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE copied_log TEMPLATE {name} STRATEGY file_copy".encode())
    try:
        with psycopg.connect(copy.service) as copied, psycopg.connect(log.urls.admin) as original:
            assert is_compared(original)
            assert not is_compared(copied)
            original.execute("SET session_replication_role = replica")
            original.execute("TRUNCATE events")
            assert not is_compared(original)
    finally:
        drop(copy)


APPENDING = """
SELECT append_events('{import/S/1}', '{1}', '{import_staged.v1}', '{S}', '{""}', '{""}', '', '{{}}',
                     '{}', '{}', '{}', '{}', '{}', '{}', '{}')
"""


def test_the_services_role_cannot_append_by_tables_or_settings_of_its_own(log: Log, service: Any) -> None:
    service.execute("CREATE TEMP TABLE log_comparisons AS SELECT * FROM public.log_comparisons")
    service.execute("CREATE TEMP TABLE intake_stops AS SELECT * FROM public.intake_stops")
    service.execute("CREATE TEMP TABLE pg_class AS SELECT oid, current_user::regrole::oid AS relowner FROM pg_class")
    service.execute("SET importledger.is_restoring = 'on'")
    start_again(log)
    with pytest.raises(psycopg.Error) as refusal:
        service.execute(APPENDING)
    assert refusal.value.sqlstate == NOT_COMPARED
    put_back(log)
    refused(log)
    with pytest.raises(psycopg.Error) as refusal:
        service.execute(APPENDING)
    assert refusal.value.sqlstate == STOPPED
