"""What the command writes is for its owner alone, also in a folder, or a file, that was there already."""

import os
import sys
from pathlib import Path

import psycopg
import pytest

from embedded.postgres import PostgresUrls
from embedded.supervisor import Program, Supervisor
from eventstore.aggregates.import_process import stream_of
from eventstore.log.ledger import Ledger
from eventstore.operations.backup import back_up
from eventstore.operations.export import export, header_of
from eventstore.proof.proof import write_proof
from redaction.private_files import open_private
from tests.support.make import DIGEST, NOON, stage
from tests.support.running import wait_for
from tests.support.sealed_log import KEY, SUPPLIER, Log


def mode(file: Path) -> int:
    return file.stat().st_mode & 0o777


@pytest.mark.promise("files-backup-proof-export")
def test_a_new_file_and_one_that_was_there_are_private(folder: Path) -> None:
    before = os.umask(0)
    try:
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
    finally:
        os.umask(before)


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
    places = [folder / "backup", folder / "keys"]
    for place in places:
        place.mkdir(mode=0o777)
        place.chmod(0o777)
    before = os.umask(0)
    try:
        back_up(database.service, places[0], keys=places[1])
        with ledger.connection() as connection:
            bounds = dict.fromkeys(("first", "last"))
            export(connection, folder / "x.ndjson.zst", header_of("S", None, None), bounds, payloads=True)
    finally:
        os.umask(before)
    written = [file for place in places for file in place.iterdir()] + [folder / "x.ndjson.zst"]
    assert len(written) > 5
    assert {mode(file) for file in written} == {0o600}


@pytest.mark.promise("files-backup-proof-export")
@pytest.mark.asvs("V16.4.2")
def test_proofs_and_logs_are_private_in_a_folder_that_was_there(log: Log) -> None:
    place = log.folder / "open"
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    before = os.umask(0)
    try:
        sealed, streams = log.seal(), [stream_of(SUPPLIER, "BENCH-0000001")]
        with psycopg.connect(log.urls.service) as connection:
            newest = (sealed.checkpoint, sealed.note)
            write_proof(connection, place / "x.zip", streams, newest, KEY.verifier, kept={}, payloads=True)
        says = [sys.executable, "-c", "print('said')"]
        program = Program(name="a", command=says, environment=os.environ, log=str(place / "a.log"))
        running = Supervisor()
        running.start(program)
        wait_for(lambda: (place / "a.log").exists(), "it has said something")
        running.stop()
    finally:
        os.umask(before)
    assert {mode(file) for file in place.iterdir()} == {0o600}
