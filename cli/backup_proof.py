"""What makes a backup provable: the checkpoint that is signed with it, and the log after a restore compared with it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from psycopg import Connection
from psycopg.rows import tuple_row

from cli.service.sealing import SEALING_KEY, kept_inside, outside
from cli.service.settings import Settings
from embedded.folder import DataFolder
from eventstore.clock import now
from eventstore.operations.backup import MANIFEST, BackupError, Sign, manifest_text, unsigned
from eventstore.operations.guards import guards_off
from eventstore.proof.answer_verification import verify_answers
from eventstore.proof.checkpoints import LogKey, OutsideUnavailable, read_signed
from eventstore.proof.payload_verification import verify_payloads
from eventstore.proof.sealing import LogDiffers, SealRefused, compare_log, seal, sealing_lock, sign_snapshot
from eventstore.proof.statement import check_statement, sign_statement
from eventstore.proof.verification import Kept, gaps, verify_events
from eventstore.proof.verifier import Invalid, read_statement

CHECKPOINT = "checkpoint.note"

_SELECT_SIGNER = """
SELECT split_part(note, E'\\n', 1), count(*) OVER () FROM log_checkpoints ORDER BY branch DESC, size DESC LIMIT 1
"""


def known_key(settings: Settings, folder: DataFolder) -> LogKey | None:
    """The sealing key of this machine, where it has one."""
    secret = settings.sealing_key or folder.known_secret(SEALING_KEY)
    return LogKey.of(secret) if secret else None


def signing(database_url: str, settings: Settings) -> tuple[Sign, str | None]:
    """Seals the log, and gives what signs a backup's manifest; and why that leaves it unsigned, where it does."""
    key = known_key(settings, DataFolder(settings.data_dir))
    if key is None:
        reason = "This machine does not have the sealing key."
    else:
        try:
            with psycopg.connect(database_url, autocommit=True) as connection:
                connection.execute("SET statement_timeout = 0; SET TIME ZONE 'UTC'")
                with sealing_lock(connection, waits=True):
                    seal(connection, key, outside(settings), at=now())
        except (SealRefused, OutsideUnavailable) as error:
            reason = str(error)
        else:
            return lambda connection, manifest: _signed(connection, manifest, key), None
    sentence = f"NOT SIGNED: the backup has no checkpoint of its own. {reason} `restore --verify` will need --against."
    return unsigned, sentence


def _signed(connection: Connection[Any], manifest: Mapping[str, Any], key: LogKey) -> Mapping[str, Any]:
    return sign_statement(manifest, key, sign_snapshot(connection, key, at=now()), at=now())


class OwnCheckpoint(msgspec.Struct, frozen=True):
    """The checkpoint that was signed with a backup, and the verifier key that came along with it."""

    note: str
    key: str


def own_checkpoint(folder: Path) -> OwnCheckpoint | None:
    """None for a backup that was not signed. Raises BackupError for a manifest that is not as it was signed."""
    text = manifest_text(folder).decode("utf-8", "replace")
    try:
        statement = read_statement(text)
    except Invalid:
        return None
    own = OwnCheckpoint(statement["checkpoint"], statement["verifier_key"])
    try:
        size = check_statement(text, [own.key]).size
        if size != statement["position"]:
            raise Invalid(f"its checkpoint speaks of {size} events, and it of {statement['position']}")
    except Invalid as error:
        raise BackupError(f"{folder / MANIFEST} is not as it was signed: {error}. Take another backup.") from error
    return own


def is_key_trusted(own: OwnCheckpoint, keys: Sequence[str]) -> bool:
    """Whether one of the verifier keys has signed it, and not a key that only came along with the backup."""
    try:
        read_signed(own.note, keys)
    except Invalid:
        return False
    return True


def problems_of_log(
    connection: Connection[Any], kept: Sequence[Kept], keys: Sequence[str], restored_upto: int
) -> list[str]:
    """What is wrong with a log that was restored up to a position, by these checkpoints; a sentence each."""
    problems = list(gaps(connection))
    if not kept:
        return [
            *problems,
            "NOT SIGNED  the backup has no signed checkpoint of its own: name one of yours with --against",
        ]
    if not keys:
        return [*problems, "NOT SIGNED  the log's key is not here: name its verifier key with --key"]
    if not restored_upto:
        return problems
    events = verify_events(connection, keys, [*kept_inside(connection), *kept], whole=True)
    problems += events.problems
    if events.anchored < restored_upto:
        left = restored_upto - events.anchored
        problems.append(f"NOT ANCHORED  no checkpoint covers the {left} events after position {events.anchored}")
    return problems


def problems_of_restored(
    service_url: str, kept: Sequence[Kept], keys: Sequence[str], restored_upto: int
) -> tuple[list[str], str]:
    """The same of everything that was restored and is not made anew; and how much that was, in words."""
    with psycopg.connect(service_url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL TIME ZONE 'UTC'")
        problems = problems_of_log(connection, kept, keys, restored_upto)
        payloads, answers = verify_payloads(connection), verify_answers(connection)
        problems += payloads.problems + answers.problems + guards_off(connection)
    counts = f"{restored_upto:,} events, {payloads.matching:,} payloads, {answers.matching:,} remembered answers"
    return problems, counts


def compare_restored(admin_url: str, settings: Settings, folder: DataFolder) -> tuple[str | None, str | None]:
    """Compare the restored log with the checkpoints outside; return why intake is stopped, and why nothing is compared.

    The keys that the log knows are enough. The relay compares when it starts; intake waits for it where nothing is
    compared here.
    """
    key = known_key(settings, folder)
    place = outside(msgspec.structs.replace(settings, data_dir=folder.path))
    with psycopg.connect(admin_url, autocommit=True) as connection:
        connection.execute("SET statement_timeout = 0; SET TIME ZONE 'UTC'")
        try:
            with sealing_lock(connection, waits=True):
                compare_log(connection, [key.verifier] if key else [], place)
            why_not = None if place.sizes() else f"{place.url} keeps no checkpoint."
        except LogDiffers as differs:
            return str(differs), None
        except (SealRefused, OutsideUnavailable) as error:
            why_not = str(error)
        if why_not:
            connection.execute("DELETE FROM log_comparisons")
    return None, why_not


def missing_key(database_url: str, settings: Settings, folder: DataFolder, own: OwnCheckpoint | None) -> str | None:
    """What to do where the key that has signed the restored log is not here; None where it is, or nothing is signed."""
    key = known_key(settings, folder)
    with psycopg.connect(database_url) as connection, connection.cursor(row_factory=tuple_row) as cursor:
        newest = cursor.execute(_SELECT_SIGNER).fetchone()
    if newest is None or (key is not None and key.name == newest[0]):
        return None
    what = "The sealing key is not here" if key is None else "The sealing key here is not the one of this log"
    former = f" '{own.key}'" if own and own.key.startswith(f"{newest[0]}+") else " VKEY"
    return (
        f"{what}: the log was signed by {newest[0]}.\n"
        f"Before you start the service, copy secrets/sealing_key of the old service to {folder.path}/secrets/, or set "
        "IMPORTLEDGER_SEALING_KEY to it.\n"
        f"Otherwise `verify` calls its {newest[1]} checkpoints NOT SIGNED, and nothing is sealed. If the key is lost, "
        f"go on openly when there is a new event: importledger seal --former-key{former}"
    )
