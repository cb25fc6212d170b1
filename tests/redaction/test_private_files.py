"""Files have mode 0600, also in an open folder and for an existing file."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from embedded.postgres import PostgresUrls
from embedded.supervisor import Program, Supervisor
from eventstore.aggregates.import_process import stream_of
from eventstore.log.ledger import Ledger
from eventstore.operations.backup import write_backup
from eventstore.operations.export import export, header_of
from eventstore.proof.proof import write_proof
from redaction.private_files import open_private
from tests.support.make import DIGEST, NOON, stage
from tests.support.running import wait_for
from tests.support.sealed_log import KEY, SUPPLIER, Log


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """The most open umask."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(file: Path) -> int:
    return file.stat().st_mode & 0o777


def open_folder(path: Path) -> Path:
    path.mkdir()
    path.chmod(0o777)
    return path


@pytest.mark.promise("files-backup-proof-export")
def test_a_new_file_and_one_that_was_there_are_private(folder: Path) -> None:
    file = folder / "file"
    file.write_text("before")
    file.chmod(0o666)
    for mode_of_opening in ("wb", "ab"):
        with open_private(file, mode_of_opening) as opened:
            opened.write(b"x")
        assert mode(file) == 0o600
    assert file.read_bytes() == b"xx"
    with open_private(folder / "another"):
        assert mode(folder / "another") == 0o600


def test_a_link_in_the_place_of_a_new_file_is_not_followed(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "target")
    with pytest.raises(OSError, match="link"):
        open_private(folder / "link")
    assert not (folder / "target").exists()


@pytest.mark.promise("files-backup-proof-export")
def test_backups_and_exports_are_private_in_a_folder_that_was_there(
    folder: Path, ledger: Ledger, database: PostgresUrls
) -> None:
    ledger.execute("import/S/1", stage(DIGEST), at=NOON, by="t")
    places = [open_folder(folder / name) for name in ("backup", "keys")]
    write_backup(database.service, places[0], keys=places[1])
    with ledger.connection() as connection:
        bounds = dict.fromkeys(("first", "last"))
        export(connection, folder / "x.ndjson.zst", header_of("S", None, None), bounds, payloads=True)
    written = [file for place in places for file in place.iterdir()] + [folder / "x.ndjson.zst"]
    assert len(written) > 5
    assert {mode(file) for file in written} == {0o600}


@pytest.mark.promise("files-backup-proof-export")
@pytest.mark.asvs("V16.4.2")
def test_proofs_and_logs_are_private_in_a_folder_that_was_there(log: Log) -> None:
    place = open_folder(log.folder / "open")
    sealed, streams = log.seal(), [stream_of(SUPPLIER, "BENCH-0000001")]
    with psycopg.connect(log.urls.service) as connection:
        newest = (sealed.checkpoint, sealed.note)
        write_proof(connection, place / "x.zip", streams, newest, KEY.verifier, further_notes={}, payloads=True)
    program = [sys.executable, "-c", "print('printed')"]
    running = Supervisor()
    running.start(Program(name="a", command=program, environment=os.environ, log=str(place / "a.log")))
    wait_for(lambda: (place / "a.log").exists(), "it has printed something")
    running.stop()
    assert {mode(file) for file in place.iterdir()} == {0o600}
