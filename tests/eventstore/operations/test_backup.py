"""A backup has the true counts of its rows, and its manifest is signed."""

import pytest

from eventstore.operations.backup import EXCLUDED, MANIFEST, TABLES, BackupError, read_manifest, restore, write_backup
from eventstore.proof.sealing import sign_snapshot
from eventstore.proof.statement import check_statement, sign_statement
from eventstore.proof.verifier import read_checkpoint
from projections import PROJECTIONS
from tests.support.databases import Admin
from tests.support.make import NOON
from tests.support.sealed_log import ACCOUNTS, KEY, OTHER_KEY, Log, emptied


@pytest.mark.promise("counts-backup-restore-real")
def test_a_backup_counts_its_rows(log: Log) -> None:
    manifest = write_backup(log.urls.service, log.folder / "backup")
    counts = {name: part.rows for name, part in manifest.parts.items()}
    assert counts["events"] == 3 * ACCOUNTS
    assert counts["payloads"] == counts["payload_keys"] == ACCOUNTS
    assert counts["log_checkpoints"] == 2


@pytest.mark.promise("restore-verify-call-backup")
@pytest.mark.asvs("V11.6.1")
def test_the_manifest_is_signed_with_a_checkpoint_of_exactly_what_is_in_the_backup(log: Log) -> None:
    log.add(301, 310)
    write_backup(
        log.urls.service,
        log.folder / "backup",
        sign=lambda connection, manifest: sign_statement(
            manifest, KEY, sign_snapshot(connection, KEY, at=NOON), at=NOON
        ),
    )
    text = (log.folder / "backup" / MANIFEST).read_text()
    checkpoint = check_statement(text, [KEY.verifier])
    assert checkpoint.size == read_manifest(log.folder / "backup").position == 3 * ACCOUNTS + 30
    assert read_checkpoint(log.seal().note, KEY.verifier).root == checkpoint.root


@pytest.mark.parametrize(
    ("named", "keys", "sentence"),
    [
        ("keys", "log", "log holds a log: --keys must name a folder"),
        ("log", "log", "log holds a log: --keys must name a folder"),
        ("keys", "keys", "keys holds keys and no log"),
    ],
)
def test_the_two_folders_of_a_backup_are_told_apart(log: Log, named: str, keys: str, sentence: str) -> None:
    write_backup(log.urls.service, log.folder / "log", keys=log.folder / "keys")
    emptied(log)
    folder = log.folder / named
    with pytest.raises(BackupError, match=sentence):
        restore(log.urls.admin, folder, read_manifest(folder), keys=log.folder / keys)


@pytest.mark.promise("counts-backup-restore-real")
@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"position": 600', '"position": 599', "at position 600 instead of 599"),
        ('"rows": 200', '"rows": 201', "has 200 rows instead of 201"),
    ],
)
def test_rows_and_position_of_a_restore_are_compared_with_the_manifest(
    log: Log, old: str, new: str, sentence: str
) -> None:
    folder = log.folder / "backup"
    write_backup(log.urls.service, folder)
    emptied(log)
    text = (folder / MANIFEST).read_text()
    assert old in text
    (folder / MANIFEST).write_text(text.replace(old, new))
    with pytest.raises(BackupError, match=sentence):
        restore(log.urls.admin, folder, read_manifest(folder))


@pytest.mark.promise("every-table-backup-rebuilt")
def test_every_table_is_in_the_backup_or_made_anew_or_left_out_with_a_reason(admin: Admin) -> None:
    held = {table for table, _ in TABLES.values()}
    anew = {f"{projection.home}.{table}" for projection in PROJECTIONS for table in projection.tables}
    left_out = {f"public.{table}" for table in EXCLUDED}
    query = (
        "SELECT schemaname || '.' || tablename FROM pg_tables"
        " WHERE schemaname NOT LIKE 'pg\\_%' AND schemaname <> 'information_schema'"
    )
    there = sorted(name for (name,) in admin.execute(query))
    assert sorted([*held, *anew, *left_out]) == there
    assert all(EXCLUDED.values())


@pytest.mark.promise("every-table-backup-rebuilt")
def test_former_verifier_keys_are_there_after_a_restore(log: Log) -> None:
    log.add(301, 310)
    log.seal(OTHER_KEY, former_key=KEY.verifier)
    keys = log.admin.execute("SELECT * FROM log_keys ORDER BY origin").fetchall()
    assert [key[1] for key in keys] == sorted([KEY.verifier, OTHER_KEY.verifier])
    write_backup(log.urls.service, log.folder / "backup")
    emptied(log)
    restore(log.urls.admin, log.folder / "backup", read_manifest(log.folder / "backup"))
    assert log.admin.execute("SELECT * FROM log_keys ORDER BY origin").fetchall() == keys
