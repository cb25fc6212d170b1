"""`restore --verify` accepts only what was signed when the backup was written."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard
from click.testing import CliRunner

from bench.history import NAMED
from cli.main import importledger
from embedded.postgres import PostgresUrls
from eventstore.errors import IntakeStopped, OperatorError
from eventstore.log.ledger import Ledger
from eventstore.operations.backup import MANIFEST
from eventstore.proof.statement import sign_statement
from projections import INLINE
from projections.retention.erasure import erase
from tests.support.folders import temporary_folder
from tests.support.make import NOON
from tests.support.sealed_log import KEY, OTHER_KEY, Log, emptied, find, new_log
from tests.support.verbs import logging_as_before

Environment = pytest.MonkeyPatch


@pytest.fixture(scope="module")
def written(postgres: PostgresUrls, filled_log: Path) -> Iterator[Path]:
    """A folder with the backup of a sealed log with some more events, and with the checkpoints outside."""
    with temporary_folder() as folder:
        new = new_log(postgres, filled_log, folder)
        with new as log, Environment.context() as environment, logging_as_before():
            set_up(log, environment)
            log.answer("supplier/ANSWERED")
            log.add(301, 310)
            output = invoked("backup", str(folder / "backup"))[1]
            assert "holds the log up to position 631: 631 events, 210 payloads, 1 remembered answer" in output, output
            assert "keep a copy elsewhere" in output
        yield folder


@pytest.fixture
def backup(written: Path, log: Log, monkeypatch: Environment) -> Path:
    """A copy of the backup, beside an empty database."""
    set_up(log, monkeypatch)
    for place in ("backup", "outside"):
        shutil.copytree(written / place, log.folder / place, dirs_exist_ok=True)
    emptied(log)
    return log.folder / "backup"


def set_up(log: Log, environment: Environment) -> None:
    find(log, environment)
    environment.setenv("DATABASE_ADMIN_URL", log.urls.admin)
    environment.setenv("IMPORTLEDGER_DATA_DIR", str(log.folder / "data"))


def invoked(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(importledger, arguments)
    assert result.exception is None or isinstance(result.exception, (SystemExit, OperatorError)), result.exception
    return result.exit_code, f"{result.output}{result.exception or ''}"


def edit(backup: Path, part: str, change: Callable[[list[bytes]], list[bytes]]) -> None:
    """Rows of a part, and whatever in the manifest would give the edit away."""
    file, manifest = backup / f"{part}.copy.zst", json.loads((backup / MANIFEST).read_text())
    rows = change(zstandard.ZstdDecompressor().decompressobj().decompress(file.read_bytes()).splitlines(keepends=True))
    file.write_bytes(zstandard.ZstdCompressor().compress(b"".join(rows)))
    manifest["parts"][part] |= {"rows": len(rows), "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
    if part == "events":
        manifest["position"] = int(rows[-1].split(b"\t")[0])
    (backup / MANIFEST).write_text(json.dumps(manifest))


def cut(backup: Path) -> None:
    edit(backup, "events", lambda rows: rows[:-1])


def caused_by_edited(backup: Path) -> None:
    """Of an import's start, of which no view says who has caused it."""

    def change(rows: list[bytes]) -> list[bytes]:
        columns = rows[100].split(b"\t")
        columns[6] = b"nobody"
        return [*rows[:100], b"\t".join(columns), *rows[101:]]

    edit(backup, "events", change)


def number_key_edited(backup: Path) -> None:
    """The key that account numbers are drawn with: numbers would be drawn twice."""
    edit(backup, "account_number_key", lambda rows: [b"\\\\x" + b"00" * 32 + b"\n"])


def unsigned(backup: Path) -> None:
    manifest = json.loads((backup / MANIFEST).read_text())
    for name in ("signature", "checkpoint", "verifier_key", "signed_at"):
        del manifest[name]
    (backup / MANIFEST).write_text(json.dumps(manifest))


def signed_by_another(backup: Path) -> None:
    unsigned(backup)
    manifest = json.loads((backup / MANIFEST).read_text())
    note = OTHER_KEY.sign(manifest["position"], bytes(32), NOON)
    (backup / MANIFEST).write_text(json.dumps(sign_statement(manifest, OTHER_KEY, note, at=NOON)))


def flipped(backup: Path) -> None:
    file = backup / "payloads.copy.zst"
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def of_another_format(backup: Path) -> None:
    manifest = json.loads((backup / MANIFEST).read_text())
    (backup / MANIFEST).write_text(json.dumps(manifest | {"format": 99}))


def unfinished(backup: Path) -> None:
    (backup / MANIFEST).unlink()


@pytest.mark.promise("restore-verify-call-backup")
def test_a_backup_is_verified_with_its_own_checkpoint_and_nothing_is_signed(
    backup: Path, log: Log, monkeypatch: Environment
) -> None:
    monkeypatch.setattr("cli.restore.FEW_EVENTS", 0)  # by several processes
    before = log.outside.sizes()
    code, output = invoked("restore", str(backup), "--verify")
    assert (code, "Verified: no event is missing, every payload" in output) == (0, True), output
    assert "631 events, 210 payloads, 1 remembered answer match the signed checkpoints." in output
    assert "sealing key" not in output
    assert log.outside.sizes() == before


@pytest.mark.promise("restore-verify-call-backup")
def test_a_backup_that_was_altered_after_it_was_signed_is_refused_before_it_is_restored(backup: Path, log: Log) -> None:
    for change, sentence in (
        (cut, "does not match its signature: the signature of the certificate is wrong"),
        (caused_by_edited, "does not match its signature"),
        (number_key_edited, "does not match its signature"),
        (flipped, "payloads.copy.zst is missing or was altered"),
        (lambda backup: (backup / "events.copy.zst").unlink(), "events.copy.zst is missing or was altered"),
        (of_another_format, "The backup has format 99; this version reads 1."),
        (unfinished, "has no complete backup"),
    ):
        altered = shutil.copytree(backup, log.folder / "altered")
        change(altered)
        code, output = invoked("restore", str(altered))
        assert (code, "Verified" in output, sentence in output) == (1, False, True), output
        shutil.rmtree(altered)
    assert log.admin.execute("SELECT FROM events").rowcount == 0


@pytest.mark.promise("restore-verify-call-backup")
@pytest.mark.parametrize("changes", [(cut, unsigned), (number_key_edited, signed_by_another)])
def test_a_backup_that_the_log_has_not_signed_is_not_verified(
    backup: Path, changes: tuple[Callable[[Path], None], ...]
) -> None:
    for change in changes:
        change(backup)
    code, output = invoked("restore", str(backup), "--verify")
    assert (code, "Verified" in output, "NOT SIGNED  the backup" in output) == (1, False, True), output


@pytest.mark.promise("restore-verify-call-backup")
@pytest.mark.parametrize(("alter", "name"), [(cut, "TRUNCATED"), (caused_by_edited, "ALTERED  position 101 ")])
def test_a_backup_without_a_signature_is_compared_with_a_checkpoint_that_was_kept(
    backup: Path, log: Log, alter: Callable[[Path], None], name: str
) -> None:
    kept = log.folder / "kept.note"
    kept.write_text((backup / "checkpoint.note").read_text())
    alter(backup)
    unsigned(backup)
    code, output = invoked("restore", str(backup), "--verify", "--against", str(kept))
    assert (code, "Verified" in output, name in output) == (1, False, True), output


def test_a_checkpoint_that_is_older_than_the_backup_leaves_a_tail_that_is_named(backup: Path, log: Log) -> None:
    unsigned(backup)
    edit(backup, "log_checkpoints", lambda rows: rows[:1])
    (log.folder / "kept.note").write_text(log.first_checkpoint.note)
    code, output = invoked("restore", str(backup), "--against", str(log.folder / "kept.note"))
    assert (code, "NOT ANCHORED  no checkpoint covers the" in output) == (1, True), output


@pytest.mark.promise("restore-without-sealing-key", "restore-stops-intake-differing")
def test_a_restore_without_the_sealing_key_says_what_to_do_and_stops_intake_all_the_same(
    backup: Path, log: Log, monkeypatch: Environment
) -> None:
    """The log knows the keys that have signed it."""
    monkeypatch.delenv("IMPORTLEDGER_SEALING_KEY")
    log.outside.keep(700, KEY.sign(700, bytes(32), NOON))
    code, output = invoked("restore", str(backup), "--verify")
    assert (code, "Verified" in output) == (0, True), output
    assert f"The sealing key is not here: the log was signed by {KEY.name}." in output
    assert "copy secrets/sealing_key of the old service" in output
    assert f"importledger seal --former-key '{KEY.verifier}'" in output
    assert f"name yours with --key: {KEY.verifier}" in output
    assert "INTAKE IS STOPPED  TRUNCATED: the log has 631 events, and" in output


def test_a_backup_without_the_key_says_that_it_is_not_signed(log: Log, monkeypatch: Environment) -> None:
    monkeypatch.setenv("DATABASE_URL", log.urls.service)
    monkeypatch.delenv("IMPORTLEDGER_SEALING_KEY", raising=False)
    monkeypatch.setenv("IMPORTLEDGER_DATA_DIR", str(log.folder / "data"))
    code, output = invoked("backup", str(log.folder / "backup"))
    assert (code, "NOT SIGNED: the backup has no checkpoint of its own." in output) == (0, True), output


@pytest.mark.promise("log-shorter-checkpoints-another")
def test_a_backup_that_is_older_than_the_checkpoints_outside_stops_intake(backup: Path, log: Log) -> None:
    """Also if intake into the empty database is stopped already."""
    log.outside.keep(700, KEY.sign(700, bytes(32), NOON))
    assert "TRUNCATED: the log has 0 events" in invoked("seal")[1]
    assert "The log is empty: restore a backup" in invoked("seal", "--continue-from", "0", "--reason", "x")[1]
    code, output = invoked("restore", str(backup))
    assert code == 0, output
    assert "INTAKE IS STOPPED  TRUNCATED: the log has 631 events, and" in output
    assert "importledger seal --continue-from 631 --reason TEXT" in output
    assert log.admin.execute("SELECT size FROM intake_stops WHERE ended_at IS NULL").fetchall() == [(700,)]
    with pytest.raises(IntakeStopped):
        CliRunner().invoke(importledger, ["supplier", "create", "LATER"], catch_exceptions=False)
    assert invoked("seal", "--continue-from", "631", "--reason", "the newest backup")[0] == 0
    assert invoked("supplier", "create", "LATER")[0] == 0
    assert invoked("seal")[0] == 0


def out_of_reach(log: Log, monkeypatch: Environment) -> list[str]:
    monkeypatch.setenv("IMPORTLEDGER_CHECKPOINTS_URL", "file:///dev/null/checkpoints")
    return ["file:///dev/null/checkpoints: NotADirectoryError"]


def empty(log: Log, monkeypatch: Environment) -> list[str]:
    """Also on a machine with another sealing key."""
    monkeypatch.setenv("IMPORTLEDGER_CHECKPOINTS_URL", (log.folder / "elsewhere").as_uri())
    monkeypatch.setenv("IMPORTLEDGER_SEALING_KEY", "B" * 43)
    other = "The sealing key here is not the one of this log"
    return ["elsewhere keeps no checkpoint, and the log has one of ", other]


def of_a_key_that_nobody_knows(log: Log, monkeypatch: Environment) -> list[str]:
    log.outside.keep(700, OTHER_KEY.sign(700, bytes(32), NOON))
    return ["A checkpoint of the log is not accepted"]


@pytest.mark.promise("restore-stops-intake-differing", "restore-without-sealing-key")
@pytest.mark.parametrize("place", [out_of_reach, empty, of_a_key_that_nobody_knows])
def test_a_restore_that_compares_nothing_says_so_and_what_to_do(
    backup: Path, log: Log, monkeypatch: Environment, place: Callable[[Log, Environment], list[str]]
) -> None:
    reasons = place(log, monkeypatch)
    code, output = invoked("restore", str(backup))
    assert code == 0, output
    for part in ("NOT COMPARED with the checkpoints outside: ", "set IMPORTLEDGER_CHECKPOINTS_URL", *reasons):
        assert part in output
    assert log.admin.execute("SELECT is_log_compared()").fetchall() == [(False,)], "the relay does so"


def test_who_was_erased_since_is_erased_again_before_the_restored_log_is_compared(
    backup: Path, log: Log, monkeypatch: Environment
) -> None:
    """Of a longer log: after the comparison nothing could be appended."""
    log.outside.keep(700, KEY.sign(700, bytes(32), NOON))
    keys = backup.parent / "keys"
    assert invoked("restore", str(backup))[0] == 0
    assert invoked("seal", "--accept", "--reason", "to erase somebody")[0] == 0
    ledger = Ledger(log.urls.admin, views=INLINE)
    assert erase(ledger, "NORDWIND", NAMED % 1, reason="x", at=NOON, by="t") is not None
    ledger.close()
    assert invoked("backup", str(backup.parent / "newer"), "--keys", str(keys))[0] == 0
    emptied(log)
    code, output = invoked("restore", str(backup), "--keys", str(keys))
    assert (code, f"{NAMED % 1} of NORDWIND is erased again." in output) == (0, True), output
    assert "INTAKE IS STOPPED" in output


def test_a_wrong_key_or_checkpoint_is_refused_before_anything_is_restored(backup: Path, log: Log) -> None:
    stranger, nonsense = log.folder / "stranger.note", log.folder / "nonsense.note"
    stranger.write_text(OTHER_KEY.sign(600, bytes(32), NOON))
    nonsense.write_text("no note")
    for option, value, code, reason in (
        ("--key", "nonsense", 2, "--key must be a verifier key (NAME+HASH+KEY) or a file that holds one"),
        ("--key", OTHER_KEY.verifier, 1, "The backup is not signed with the key that --key names"),
        ("--against", stranger, 1, "is not signed by the log's key"),
        ("--against", nonsense, 1, "this is no signed checkpoint"),
    ):
        ended, output = invoked("restore", str(backup), option, str(value))
        assert (ended, reason in output) == (code, True), output
    assert log.admin.execute("SELECT FROM events").rowcount == 0
