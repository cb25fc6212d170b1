"""Archives of finished suppliers: payloads are detached without loss, and erased persons stay erased."""

import contextlib
import itertools
import json
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import obstore
import psycopg
import pytest
from click.testing import CliRunner

from cli.main import importledger
from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import FailImport, ImportErrored, ImportProcessed, RetryImport, StartImport
from eventstore.clock import now
from eventstore.errors import OperatorError
from eventstore.log import locks
from eventstore.log.ledger import Ledger
from eventstore.proof.archive import EVENTS, INDEX, PAYLOADS, STATEMENT, Archive, ArchiveDamaged
from eventstore.proof.payload_verification import verify_payloads
from projections import INLINE
from projections.retention import archiving
from projections.retention.erasure import erase
from projections.versions.build import administrator
from tests.support.databases import Admin, cloned, drop
from tests.support.following import attach, follow
from tests.support.make import an_account
from tests.support.running import cli, environment_on
from tests.support.sealed_log import KEY, OTHER_KEY
from tests.support.staging import SUPPLIER, stage
from workers.actors.process_imports import ImportProcessor

ACCOUNTS = 5
EXTERNALS = [str(an_account(SUPPLIER, number)["external_account_number"]) for number in range(1, ACCOUNTS + 1)]
_numbers = count(1)


@pytest.fixture(scope="module")
def finished(postgres: PostgresUrls) -> Iterator[str]:
    """The name of a database in which the supplier is complete, with five accounts and a record of the first."""
    name = "finished_supplier"
    urls = cloned(postgres, name)
    environment = {"DATABASE_URL": urls.service, "DATABASE_ADMIN_URL": urls.admin}
    ledger = Ledger(urls.service, views=INLINE)
    cli("supplier", "create", SUPPLIER, environment=environment)
    ImportProcessor(ledger, worker=lambda: 7).process(
        [stage(ledger, an_account(SUPPLIER, number)) for number in range(1, ACCOUNTS + 1)]
    )
    attach(ledger, urls, 1, is_cancelled=False)
    follow(ledger)
    cli("supplier", "status", SUPPLIER, "complete", environment=environment)
    follow(ledger)
    ledger.close()
    yield name
    drop(urls)


@pytest.fixture
def database(postgres: PostgresUrls, finished: str) -> Iterator[PostgresUrls]:
    """A copy of the finished supplier's database."""
    urls = cloned(postgres, f"archived_{next(_numbers)}", template=finished)
    yield urls
    drop(urls)


@pytest.fixture
def place(database: PostgresUrls, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of archives; the environment of verbs names the database."""
    for name, value in environment_on(database, folder).items():
        monkeypatch.setenv(name, value)
    return folder / "archives"


def typed(*words: str, code: int = 0) -> str:
    """Run a verb and return its output."""
    result = CliRunner().invoke(importledger, words)
    assert result.exception is None or isinstance(result.exception, (SystemExit, OperatorError)), result.exception
    assert result.exit_code == code, (words, result.output, result.exception)
    return f"{result.output}{result.exception or ''}"


def archived(place: Path) -> Path:
    """Archive the supplier and return the file."""
    typed("archive", SUPPLIER, "--to", place.as_uri())
    [file] = place.iterdir()
    return file


def payloads(connection: Admin) -> list[Any]:
    query = "SELECT stream, sha256, recorded_at, received_bytes, subject, content FROM payloads ORDER BY stream, sha256"
    return connection.execute(query.encode()).fetchall()


@pytest.mark.promise("finished-supplier-s-payloads")
def test_payloads_are_detached_and_come_back_as_they_were(
    place: Path, admin: Admin, ledger: Ledger, bucket: str
) -> None:
    before = payloads(admin)
    assert len(before) == ACCOUNTS + 1
    said = typed("archive", SUPPLIER, "--to", place.as_uri())
    assert f"{ACCOUNTS + 1} payloads lie there, {ACCOUNTS + 1} were detached now" in said
    assert payloads(admin) == []
    assert f"{ACCOUNTS + 1} payloads match their digests, 0 are of persons" in typed("archive", "verify", SUPPLIER)
    assert f"{ACCOUNTS + 1} payloads of {SUPPLIER} are back" in typed("archive", "attach", SUPPLIER)
    assert payloads(admin) == before
    assert "is not archived" in typed("archive", "attach", SUPPLIER)
    assert "is not archived" in typed("archive", "verify", SUPPLIER, code=1)
    assert typed("verify", "--all").count("DETACHED") == 0
    follow(ledger)
    typed("archive", SUPPLIER, "--to", f"{bucket}/archives")
    assert payloads(admin) == []
    assert f"{bucket}/archives/{SUPPLIER}-" in typed("archive", "verify", SUPPLIER)
    typed("archive", "attach", SUPPLIER)
    assert payloads(admin) == before


@pytest.mark.promise("payload-log-says-lie")
def test_verify_accepts_what_is_detached_and_says_where_it_lies(place: Path) -> None:
    archived(place)
    typed("seal")
    said = typed("verify", "--all")
    assert f"DETACHED  payloads of {SUPPLIER} are in {place.as_uri()}/" in said
    assert f"{ACCOUNTS + 1} payloads are not in the database, but in archives according to the log" in said
    assert '"detached": 6' in typed("verify", "--all", "--json")


@pytest.mark.promise("payload-log-says-lie")
def test_a_payload_that_is_missing_without_an_archive_is_still_a_problem(place: Path, admin: Admin) -> None:
    admin.execute("SET session_replication_role = replica")
    archived(place)
    typed("archive", "attach", SUPPLIER)
    admin.execute("DELETE FROM payloads WHERE stream = %s", (f"import/{SUPPLIER}/{EXTERNALS[0]}",))
    assert "its payload is missing and was not erased" in typed("verify", "--all", code=1)


def test_what_is_sent_after_the_archive_has_to_be_here(place: Path, admin: Admin, ledger: Ledger) -> None:
    archived(place)
    typed("supplier", "status", SUPPLIER, "ongoing")
    ImportProcessor(ledger, worker=lambda: 7).process([stage(ledger, an_account(SUPPLIER, 9))])
    assert len(payloads(admin)) == 1
    admin.execute("SET session_replication_role = replica")
    admin.execute("TRUNCATE payloads")
    with psycopg.connect(admin.info.dsn, password=admin.info.password) as connection:
        assert "its payload is missing" in verify_payloads(connection).problems[0]


@pytest.mark.promise("archive-finished-supplier-holds")
def test_an_archive_holds_no_key_and_no_readable_payload(place: Path, admin: Admin) -> None:
    keys = [key for (key,) in admin.execute("SELECT key FROM payload_keys")]
    file = archived(place)
    with zipfile.ZipFile(file) as archive:
        everything = b"".join(archive.read(name) for name in archive.namelist())
    assert len(keys) == ACCOUNTS
    assert not [key for key in keys if key in everything]
    assert b"family_name" not in everything


@pytest.mark.promise("archive-finished-supplier-holds")
def test_who_is_erased_after_the_archive_is_erased_in_it_and_does_not_come_back(
    place: Path, admin: Admin, owner: Ledger
) -> None:
    archived(place)
    erase(owner, SUPPLIER, EXTERNALS[0], reason="R-1", at=now(), by="t")
    assert "4 payloads match their digests, 2 are of persons who were erased" in typed("archive", "verify", SUPPLIER)
    assert "4 payloads of" in typed("archive", "attach", SUPPLIER)
    assert not [row for row in payloads(admin) if EXTERNALS[0] in row[0]]
    typed("seal")
    assert "1 person was erased" in typed("verify", "--all")


def test_views_that_need_detached_payloads_say_what_to_type(place: Path) -> None:
    archived(place)
    for words in (("rebuild", "account_search"), ("verify", "platform"), ("heal", SUPPLIER, EXTERNALS[1])):
        said = typed("projections", *words, code=1)
        assert f"`importledger archive attach {SUPPLIER}` first" in said
    typed("projections", "rebuild", "import_status")
    typed("archive", "attach", SUPPLIER)
    typed("projections", "verify", "--all")


def test_who_was_erased_before_has_no_payload_in_the_archive_and_it_is_whole(place: Path, owner: Ledger) -> None:
    erase(owner, SUPPLIER, EXTERNALS[0], reason="R-1", at=now(), by="t")
    follow(owner)
    archived(place)
    assert "4 payloads match their digests, 0 are of persons" in typed("archive", "verify", SUPPLIER)


def test_a_view_of_erased_persons_alone_needs_no_archive(place: Path, owner: Ledger) -> None:
    archived(place)
    for external in EXTERNALS:
        erase(owner, SUPPLIER, external, reason="R-1", at=now(), by="t")
    typed("projections", "rebuild", "account_search")


def test_a_history_says_where_a_payload_lies_and_not_that_it_was_erased(place: Path, owner: Ledger) -> None:
    archived(place)
    erase(owner, SUPPLIER, EXTERNALS[0], reason="R-1", at=now(), by="t")
    assert f"is in {place.as_uri()}/" in typed("history", SUPPLIER, EXTERNALS[1], "--payloads")
    assert "was erased" in typed("history", SUPPLIER, EXTERNALS[0], "--payloads")


def test_a_supplier_that_is_not_finished_is_not_archived(place: Path, ledger: Ledger) -> None:
    typed("supplier", "status", SUPPLIER, "ongoing")
    assert "is not finished" in typed("archive", SUPPLIER, "--to", place.as_uri(), code=1)
    stage(ledger, an_account(SUPPLIER, 9))
    typed("supplier", "status", SUPPLIER, "complete")
    assert "Imports and e-mails that have not ended: 1." in typed("archive", SUPPLIER, "--to", place.as_uri(), code=1)
    assert not place.exists()
    assert "There is no import supplier" in typed("archive", "NOBODY", "--to", place.as_uri(), code=1)
    for url in ("/folder", "file://host/folder", "s3://", "s3://key:secret@bucket", "s3://bucket?key=secret"):
        assert "The URL must be file:///folder" in typed("archive", SUPPLIER, "--to", url, code=2)


def test_nothing_is_detached_while_a_projection_has_yet_to_read_it(place: Path, admin: Admin, ledger: Ledger) -> None:
    admin.execute("UPDATE projection_versions SET position = 1 WHERE name = 'account_search'")
    assert "account_search has yet to read payloads" in typed("archive", SUPPLIER, "--to", place.as_uri(), code=1)


class Killed(BaseException):
    """The end of the process."""


@pytest.mark.promise("finished-supplier-s-payloads")
def test_an_archiving_that_is_killed_loses_nothing_and_goes_on(
    place: Path, admin: Admin, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = payloads(admin)
    steps: list[tuple[str, Any]] = [("put", obstore), ("execute", Ledger), ("detach", archiving)]
    for step, target in steps:

        def killed(*_: Any, step: str = step, **__: Any) -> None:
            if step == "detach":  # in the middle of it
                admin.execute("DELETE FROM payloads WHERE stream LIKE %s", (f"%{EXTERNALS[0]}",))
            raise Killed

        with monkeypatch.context() as patched:
            patched.setattr(target, step, killed)
            with pytest.raises(Killed):
                CliRunner().invoke(importledger, ["archive", SUPPLIER, "--to", place.as_uri()])
        if step != "detach":
            assert payloads(admin) == before
        typed("seal")
        typed("verify", "--all")
        typed("archive", SUPPLIER, "--to", place.as_uri())
        assert payloads(admin) == []
        typed("archive", "attach", SUPPLIER)
        assert payloads(admin) == before
        follow(ledger)


@pytest.mark.promise("finished-supplier-s-payloads")
def test_a_payload_that_is_sent_again_while_it_is_detached_stays(
    place: Path, database: PostgresUrls, admin: Admin, ledger: Ledger
) -> None:
    stream = errored(ledger)
    file = archived(place)
    with contextlib.closing(Archive(file, [KEY.verifier])) as archive, ThreadPoolExecutor() as threads:
        archiving.restore_payloads(admin, archive)
        with administrator(database.admin) as appending:  # another append holds the log
            appending.execute("SELECT pg_advisory_lock(%s)", (locks.LOG,))
            sending = threads.submit(stage, ledger, an_account(SUPPLIER, 9))
            while waiting(admin) < 1:
                assert not sending.done()
            with administrator(database.admin) as connection:
                detaching = threads.submit(archiving.detach, connection, archive)
                while waiting(admin) < 2 and not detaching.done():
                    pass
                appending.close()
                sending.result()
                detaching.result()
    assert [row[0] for row in payloads(admin)] == [stream]
    ImportProcessor(ledger, worker=lambda: 7).process([stream])
    assert isinstance(ledger.history(stream)[-1].event, ImportProcessed)


def waiting(admin: Admin) -> int:
    """Return the number of sessions of this database that wait for a lock."""
    query = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    return admin.execute(query).rowcount


def errored(ledger: Ledger) -> str:
    """Return the stream of an import that has failed, of the finished supplier."""
    typed("supplier", "status", SUPPLIER, "ongoing")
    stream = stage(ledger, an_account(SUPPLIER, 9))
    ledger.execute(
        stream, StartImport(worker=1, lease_until=now() + timedelta(minutes=1), max_attempts=5), at=now(), by="t"
    )
    ledger.execute(stream, FailImport(start=2, code="attempts_exhausted", detail=""), at=now(), by="t")
    follow(ledger)
    typed("supplier", "status", SUPPLIER, "complete")
    follow(ledger)
    return stream


@pytest.mark.promise("supplier-one-archive-time")
def test_a_supplier_has_one_archive_at_a_time(place: Path, folder: Path, ledger: Ledger) -> None:
    archived(place)
    refused = f"has one archive at a time: run `importledger archive attach {SUPPLIER}` first"
    assert refused in typed("archive", SUPPLIER, "--to", (folder / "elsewhere").as_uri(), code=1)
    typed("supplier", "status", SUPPLIER, "ongoing")
    ImportProcessor(ledger, worker=lambda: 7).process([stage(ledger, an_account(SUPPLIER, 9))])
    typed("supplier", "status", SUPPLIER, "complete")
    follow(ledger)
    assert f"1 payload came after it, and it {refused}" in typed("archive", SUPPLIER, "--to", place.as_uri(), code=1)
    typed("archive", "attach", SUPPLIER)
    follow(ledger)
    said = typed("archive", SUPPLIER, "--to", place.as_uri())
    assert f"{ACCOUNTS + 2} payloads lie there, {ACCOUNTS + 2} were detached now" in said


@pytest.mark.promise("supplier-one-archive-time")
def test_a_supplier_is_archived_by_one_at_a_time(place: Path, admin: Admin) -> None:
    archived(place)
    with archiving.archive_lock(admin, SUPPLIER):
        for words in (("archive", SUPPLIER, "--to", place.as_uri()), ("archive", "attach", SUPPLIER)):
            assert "is being archived, or its archive attached, by another process" in typed(*words, code=1)
    typed("archive", "attach", SUPPLIER)


def test_where_there_is_no_room_nothing_is_written(place: Path, admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    full = shutil.disk_usage("/")._replace(free=1_000_000)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda place: full)
        said = typed("archive", SUPPLIER, "--to", place.as_uri(), code=1)
    assert re.search(r"takes about \d+ MB below /.+, which has 1 MB left", said)
    assert not place.exists()
    assert len(payloads(admin)) == ACCOUNTS + 1


@pytest.mark.promise("supplier-one-archive-time")
def test_exports_and_proofs_say_what_is_not_in_them_and_where_it_lies(place: Path, folder: Path, owner: Ledger) -> None:
    numbers = itertools.count()

    def export(*words: str) -> str:
        return typed("export", "--supplier", SUPPLIER, *words, "-o", str(folder / f"{next(numbers)}.ndjson.zst"))

    def proof() -> str:
        return typed("proof", SUPPLIER, EXTERNALS[1], "--payloads", "-o", str(folder / f"{next(numbers)}.zip"))

    assert "not in it" not in export("--payloads") + proof()
    file = archived(place)
    where = f"not in it: they are in {file.as_uri()}; `importledger archive attach {SUPPLIER}` restores them"
    erase(owner, SUPPLIER, EXTERNALS[0], reason="R-1", at=now(), by="t")
    assert f"{ACCOUNTS - 1} payloads are {where}" in export("--payloads")
    assert f"1 payload is {where}" in proof()
    told = json.loads(export("--payloads", "--json"))
    assert (told["payloads"], told["detached"], told["archive"]) == (0, ACCOUNTS - 1, file.as_uri())
    assert "not in it" not in export()  # without --payloads


@pytest.mark.promise("supplier-one-archive-time")
def test_an_import_whose_payload_is_archived_says_so_when_it_is_retried(place: Path, ledger: Ledger) -> None:
    processor = ImportProcessor(ledger, worker=lambda: 7)
    stream = errored(ledger)
    archived(place)
    ledger.execute(stream, RetryImport(), at=now(), by="t")
    processor.process([stream])
    error = ledger.history(stream)[-1].event
    assert isinstance(error, ImportErrored)
    assert (error.code, "archive" in error.detail) == ("payload_archived", True)
    typed("archive", "attach", SUPPLIER)
    ledger.execute(stream, RetryImport(), at=now(), by="t")
    processor.process([stream])
    assert isinstance(ledger.history(stream)[-1].event, ImportProcessed)


def test_an_archive_that_is_away_or_another_is_named(place: Path) -> None:
    file = archived(place)
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + b"x")
    assert "is not the file that the log names" in typed("archive", "verify", SUPPLIER, code=1)
    file.unlink()
    assert "cannot be read" in typed("archive", "verify", SUPPLIER, code=1)
    assert "cannot be read" in typed("archive", "attach", SUPPLIER, code=1)
    file.write_bytes(whole)
    typed("archive", "verify", SUPPLIER)


def changed(name: str, change: Callable[[bytes], bytes]) -> Callable[[dict[str, bytes]], None]:
    def edit(members: dict[str, bytes]) -> None:
        members[name] = change(members[name])

    return edit


EDITS: dict[str, Callable[[dict[str, bytes]], Any]] = {
    "another event": changed(EVENTS, lambda text: text.replace(b"import_processed", b"import_processes", 1)),
    "an event less": changed(EVENTS, lambda text: b"".join(text.splitlines(keepends=True)[1:])),
    "another proof": changed(EVENTS, lambda text: text.replace(b"=", b"-", 1)),
    "a payload less": changed(INDEX, lambda text: b"".join(text.splitlines(keepends=True)[1:])),
    "another payload": changed(PAYLOADS, lambda content: content[:-1] + bytes([content[-1] ^ 1])),
    "another statement": changed(STATEMENT, lambda text: text.replace(b'"events"', b'"event"', 1)),
    "a part less": lambda members: members.pop(INDEX),
}


@pytest.mark.promise("payload-log-says-lie")
def test_an_archive_that_was_changed_is_not_believed(place: Path, folder: Path) -> None:
    file = archived(place)
    Archive(file, [KEY.verifier]).close()
    with zipfile.ZipFile(file) as archive:
        whole = {name: archive.read(name) for name in archive.namelist()}
    believed = []
    for name, edit in EDITS.items():
        members = dict(whole)
        edit(members)
        assert members != whole, name
        forged = folder / f"{name}.zip"
        with zipfile.ZipFile(forged, "w") as archive:
            for part, content in members.items():
                archive.writestr(part, content)
        with contextlib.suppress(ArchiveDamaged):
            Archive(forged, [KEY.verifier]).close()
            believed.append(name)
    assert believed == []
    with pytest.raises(ArchiveDamaged, match="signed"):
        Archive(file, [OTHER_KEY.verifier])


def test_a_restore_of_a_backup_with_an_archive_makes_every_view_and_stays_detached(
    place: Path, admin: Admin, folder: Path
) -> None:
    archived(place)
    typed("backup", str(folder / "backup"))
    tables = "events, payloads, payload_keys, log_tiles, log_checkpoints, log_keys, remembered_answers"
    admin.execute("SET session_replication_role = replica")
    admin.execute(f"TRUNCATE {tables}".encode())
    said = typed("restore", str(folder / "backup"))
    assert "rebuilt" in said
    assert payloads(admin) == []
    assert admin.execute("SELECT count(*) FROM platform.service_account").fetchone() == (ACCOUNTS,)
    typed("archive", "attach", SUPPLIER)
    typed("projections", "verify", "--all")
