"""Untrusted files: no reader ends in a traceback, takes unlimited memory, or accepts an altered file.

Each kind of file is altered `FUZZ_FILES` times [default: 60], and read in a process with limits.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
import zstandard
from click.testing import CliRunner

from cli.main import importledger
from cli.service.failures import failure_sentence
from eventstore.aggregates import import_process
from eventstore.log.rows import rows_of
from eventstore.operations.backup import MANIFEST, Part, write_backup
from eventstore.operations.export import export, header_of
from eventstore.proof.archive import write_archive
from eventstore.proof.proof import write_proof
from eventstore.proof.sample_verifier import POPULATION, draw, sample_proof
from eventstore.proof.sealing import sign_snapshot
from eventstore.proof.statement import sign_statement
from eventstore.proof.verifier import Checkpoint
from system.parallel import processes
from tests.hostile.alterations import alterations, write_bombs
from tests.hostile.file_readers import READERS, Reader
from tests.support.make import NOON
from tests.support.sealed_log import KEY, SUPPLIER, Log, emptied

COUNT = int(os.environ.get("FUZZ_FILES", "60"))
SEED = 47


def written(kind: str, log: Log, folder: Path) -> Path:
    """A file of this kind, as the service writes it."""
    file = folder / "whole"
    with psycopg.connect(log.urls.service) as connection:
        sealed = log.seal()
        newest = (sealed.checkpoint, sealed.note)
        match kind:
            case "proof":
                streams = [import_process.stream_of(SUPPLIER, "BENCH-0000001")]
                write_proof(connection, file, streams, newest, KEY.verifier, further_notes={}, payloads=True)
            case "certificate":
                file.write_text(json.dumps(sign_statement({"accounts": 1}, KEY, sealed.note, at=NOON)))
            case "sample":
                return sampled(connection, newest, folder / "sample")
            case "note":
                file.write_text(sealed.note)
            case "archive":
                write_archive(connection, file, SUPPLIER, newest, KEY, at=NOON)
            case "export" | "replay":
                bounds: dict[str, Any] = {"first": 1, "last": 30}
                connection.rollback()
                export(connection, file, header_of(SUPPLIER, "1", "30"), bounds, payloads=True)
            case "manifest":
                backed_up(log, folder / "backup")
                return folder / "backup" / MANIFEST
    return file


def sampled(connection: psycopg.Connection[Any], newest: tuple[Checkpoint, str], folder: Path) -> Path:
    """A sample of three accounts, with their proofs."""
    (folder / "proofs").mkdir(parents=True)
    query = "SELECT position, stream FROM events WHERE topic = 'import_staged.v1' ORDER BY position"
    streams: dict[int, str] = dict(rows_of(connection, query))
    lines = "".join(f"{position};\n" for position in streams).encode()
    (folder / POPULATION).write_bytes(lines)
    drawn = draw(newest[0].root, "seed", {"": list(streams)}, 3)
    for number, (position, _) in enumerate(drawn, 1):
        file = folder / sample_proof(number)
        write_proof(connection, file, [streams[position]], newest, KEY.verifier, further_notes={}, payloads=False)
    accounts = [
        {"position": position, "stratum": "", "external_account_number": streams[position].split("/")[2]}
        for position, _ in drawn
    ]
    statement = {"import_supplier": SUPPLIER, "run": "r", "seed": "seed", "size": 3, "population": len(streams)}
    statement |= {"accounts": accounts, "files": {POPULATION: hashlib.sha256(lines).hexdigest()}}
    (folder / "sample.json").write_text(json.dumps(sign_statement(statement, KEY, newest[1], at=NOON)))
    return folder / "sample.json"


def backed_up(log: Log, folder: Path) -> None:
    """A backup that is signed."""
    write_backup(
        log.urls.service,
        folder,
        sign=lambda connection, statement: sign_statement(
            statement, KEY, sign_snapshot(connection, KEY, at=NOON), at=NOON
        ),
    )


@pytest.fixture(params=sorted(READERS))
def reading(request: pytest.FixtureRequest, log: Log, folder: Path) -> Iterator[tuple[str, bytes, Path, Reader]]:
    """A kind of file, one that is whole, where altered ones are put, and what reads them."""
    whole = written(request.param, log, folder)
    content = whole.read_bytes()
    with processes(1) as pool:
        reader = Reader(pool, request.param, whole)
        assert reader.problem_of(whole) == ""
        yield request.param, content, whole if request.param in ("manifest", "sample") else folder / "altered", reader


@pytest.mark.promise("files-others-proofs-checkpoints")
@pytest.mark.asvs("V1.5.2", "V5.2.3")
@pytest.mark.api_top_10("API4", "API10")
def test_no_altered_file_is_accepted_or_ends_its_reader(reading: tuple[str, bytes, Path, Reader]) -> None:
    """Nor does a small file that becomes a large one."""
    kind, content, file, reader = reading
    for number, alteration in enumerate(alterations(kind, content, COUNT, SEED)):
        file.write_bytes(alteration)
        assert reader.problem_of(file) == "", f"alteration {number} of {kind}"
    for number, bomb in enumerate(write_bombs(kind, content, file)):
        assert reader.problem_of(bomb) == "", f"bomb {number} of {kind}"


@pytest.mark.promise("files-others-proofs-checkpoints")
@pytest.mark.parametrize(
    ("part", "columns"),
    [
        ("events", "*"),
        ("payloads", "stream, sha256, content, subject"),
        ("payload_keys", "stream, key"),
        ("remembered_answers", "command_id, request_sha256, status, body"),
    ],
)
def test_a_restore_verifies_no_backup_with_an_altered_part(
    log: Log, folder: Path, monkeypatch: pytest.MonkeyPatch, part: str, columns: str
) -> None:
    """The forger has adapted the digest of the part and removed the signature. Only these columns decide anything."""
    for name, value in {
        "DATABASE_URL": log.urls.service,
        "DATABASE_ADMIN_URL": log.urls.admin,
        "IMPORTLEDGER_DATA_DIR": str(folder / "data"),
    }.items():
        monkeypatch.setenv(name, value)
    log.answer("supplier/ANSWERED")
    (folder / "kept.note").write_text(log.seal().note)
    manifest = write_backup(log.urls.service, folder / "backup")
    query = f"SELECT {columns} FROM {part} ORDER BY 1, 2".encode()
    meant = log.admin.execute(query).fetchall()
    file = folder / "backup" / f"{part}.copy.zst"
    rows = zstandard.ZstdDecompressor().decompressobj().decompress(file.read_bytes())
    for number, alteration in enumerate(alterations(part, rows, COUNT // 20, SEED)):
        file.write_bytes(zstandard.ZstdCompressor().compress(alteration))
        entry = Part(
            alteration.count(b"\n"), hashlib.sha256(file.read_bytes()).hexdigest(), manifest.parts[part].columns
        )
        forged = msgspec.structs.replace(manifest, parts=manifest.parts | {part: entry})
        (folder / "backup" / MANIFEST).write_bytes(msgspec.json.encode(forged))
        emptied(log)
        options = ("--verify", "--against", str(folder / "kept.note"), "--key", KEY.verifier)
        ended = CliRunner().invoke(importledger, ["restore", str(folder / "backup"), *options])
        if ended.exit_code == 0:
            is_same = log.admin.execute(query).fetchall() == meant
            assert is_same, f"alteration {number} is verified, and means something else"
            continue
        assert isinstance(ended.exception, Exception)
        assert failure_sentence(ended.exception) is not None, ended.exc_info
