"""The verb `backup`, which writes a backup while the service runs, and the checkpoint that is signed with it."""

from pathlib import Path

import click
import msgspec
import psycopg

from cli.addresses import admin_url
from cli.language import _, translated
from cli.output import json_option, print_result
from cli.service.sealing import checkpoint_copies, known_key
from cli.service.settings import Settings
from eventstore.clock import now
from eventstore.operations.backup import MANIFEST, BackupError, Sign, manifest_text, without_signature, write_backup
from eventstore.proof.checkpoints import CopiesUnavailable
from eventstore.proof.sealing import SealRefused, seal, sealing_lock, sign_snapshot
from eventstore.proof.statement import check_statement, sign_statement
from eventstore.proof.verifier import Invalid, read_statement
from redaction.private_files import open_private
from redaction.text import counted

FOLDER = click.Path(path_type=Path, file_okay=False)
CHECKPOINT = "checkpoint.note"


@click.command()
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.option("--keys", type=FOLDER, help="Folder of keys and user details, to be kept apart from DIR.")
@click.option("--without-keys", is_flag=True, help="No keys, answers, users and typed reasons.")
@json_option
def backup(folder: Path, keys: Path | None, without_keys: bool, as_json: bool) -> None:
    """Write a backup while the service runs.

    All files in DIR are of one snapshot. --keys writes personal data to a separate folder and encrypts the other files.
    With the sealing key, the backup has a signed checkpoint, with which `restore --verify` compares the restored log.
    """
    url = admin_url()
    sign, why_unsigned = _signing(url, Settings.from_environment())
    manifest = write_backup(url, folder, keys=keys, has_keys=not without_keys, sign=sign)
    counts = {name: part.rows for name, part in manifest.parts.items()}
    rows = ", ".join(
        translated(counted(count, name.replace("_", " ").removesuffix("s"))) for name, count in counts.items()
    )
    result = {"folder": str(folder), "position": manifest.position, "rows": counts, "warning": why_unsigned}
    sentence = _(
        "{folder} holds the log up to position {position}: {rows}.",
        folder=folder,
        position=manifest.position,
        rows=rows,
    )
    print_result(sentence, result, as_json=as_json)
    if why_unsigned and not as_json:
        click.echo(translated(why_unsigned), err=True)
    if own := own_checkpoint(folder):
        with open_private(folder / CHECKPOINT) as file:
            file.write(own.note.encode())
        if not as_json:
            click.echo(_("Its signed checkpoint is in {file}: keep a copy elsewhere.", file=folder / CHECKPOINT))


def _signing(database_url: str, settings: Settings) -> tuple[Sign, str | None]:
    """Seal the log. Return the function that signs a backup's manifest, or None and the reason."""
    key = known_key(settings)
    if key is None:
        reason = "This machine does not have the sealing key."
    else:
        try:
            with psycopg.connect(database_url, autocommit=True) as connection:
                connection.execute("SET statement_timeout = 0; SET TIME ZONE 'UTC'")
                with sealing_lock(connection, waits=True):
                    seal(connection, key, checkpoint_copies(settings), at=now())
        except (SealRefused, CopiesUnavailable) as error:
            reason = str(error)
        else:
            return lambda connection, manifest: sign_statement(
                manifest, key, sign_snapshot(connection, key, at=now()), at=now()
            ), None
    return (
        without_signature,
        f"NOT SIGNED: the backup has no checkpoint of its own. {reason} `restore --verify` will need --against.",
    )


class OwnCheckpoint(msgspec.Struct, frozen=True):
    """The checkpoint that was signed with a backup, and the verifier key in the backup."""

    note: str
    key: str


def own_checkpoint(folder: Path) -> OwnCheckpoint | None:
    """Return the checkpoint that was signed with a backup; None for an unsigned backup.

    Raises BackupError if the manifest does not match its signature.
    """
    text = manifest_text(folder).decode("utf-8", "replace")
    try:
        statement = read_statement(text)
    except Invalid:
        return None
    own = OwnCheckpoint(statement["checkpoint"], statement["verifier_key"])
    try:
        size = check_statement(text, [own.key]).size
        if size != statement["position"]:
            raise Invalid(f"its checkpoint speaks of {counted(size, 'event')}, and it of {statement['position']}")
    except Invalid as error:
        raise BackupError(f"{folder / MANIFEST} does not match its signature: {error}. Take another backup.") from error
    return own
