"""The verb `restore`, which restores a backup into an empty database and compares it with signed checkpoints."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
import psycopg

from cli.backup import FOLDER, OwnCheckpoint, own_checkpoint
from cli.language import N_, _, counted, translated
from cli.operator import caused_by
from cli.output import json_option, print_result, text_of
from cli.restored_access import RestoredAccess, restored_access
from cli.service.reach import require_answer
from cli.service.sealing import checkpoint_copies, database_checkpoints, known_key
from cli.service.settings import Settings
from cli.verify import against_option, key_option
from embedded.folder import DataFolder
from embedded.service import Service
from eventstore.aggregates.import_process import identity_of
from eventstore.clock import now
from eventstore.errors import IllegalTransition
from eventstore.log.intake_stop import restore_url
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import SELECT_ERASED
from eventstore.operations.backup import BackupError, BackupManifest, read_manifest
from eventstore.operations.backup import restore as restore_log
from eventstore.operations.guards import guards_off
from eventstore.operations.migrate import role_of
from eventstore.proof.checkpoints import CopiesUnavailable, read_note, read_signed
from eventstore.proof.payload_verification import verify_payloads
from eventstore.proof.sealing import LogDiffers, SealRefused, compare_log, copy_checkpoints, sealing_lock
from eventstore.proof.verification import CheckpointNote, gaps, verify_answers, verify_events
from eventstore.proof.verifier import Invalid
from projections import INLINE, PROJECTIONS
from projections.retention.archiving import attached_archives
from projections.retention.erasure import erase, erase_contacts
from projections.versions.build import administrator
from projections.versions.compare import verify as verify_projection
from projections.versions.install import migrate_all
from projections.versions.versions import rebuild
from redaction.text import counted as in_english

FEW_EVENTS = 10_000
"""Events up to which this process builds the views without new processes, whose start would take longer."""
_KEY_OF_BACKUP = N_("The verifier key came with the backup. Compare it with yours, or name yours with --key: {key}")
_AGAIN = "erased before the restore"
_SELECT_SIGNER = """
SELECT split_part(note, E'\\n', 1), count(*) OVER () FROM log_checkpoints ORDER BY branch DESC, size DESC LIMIT 1
"""


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--data-dir", type=click.Path(path_type=Path), help="Data folder to restore into, which must be new.")
@click.option("--verify", is_flag=True, help="Verification of checkpoints, payloads and views.")
@against_option
@key_option
@click.option("--keys", "key_folder", type=FOLDER, help="Newest folder of keys, which shows who was erased.")
@click.option("--without-keys", is_flag=True, help="Payloads stay unreadable: no keys are restored.")
@click.option(
    "--confirm-access", is_flag=True,
    help="Keys, users and passwords are valid at once: none was revoked after the backup.",
)  # fmt: skip
@json_option
def restore(
    folder: Path,
    data_dir: Path | None,
    verify: bool,
    against: tuple[Path, ...],
    keys: tuple[str, ...],
    key_folder: Path | None,
    without_keys: bool,
    confirm_access: bool,
    as_json: bool,
) -> None:
    """Restore a backup into an empty data folder or database.

    Restores the backup in DIR into an empty data folder, or into the empty database at DATABASE_URL. Erases persons
    again who were erased after the backup, according to --keys. Revoked keys stay revoked. The service refuses all
    other keys until `key confirm`, and users cannot sign in until `user enable`. --verify and --against compare the log
    with the checkpoint in the backup, and with your checkpoint.
    """
    settings = Settings.from_environment()
    target = msgspec.structs.replace(settings, data_dir=DataFolder(data_dir or settings.data_dir).path)
    manifest, of_backup = read_manifest(folder), own_checkpoint(folder)
    of_keys = own_checkpoint(key_folder) if key_folder is not None else None
    if key_folder is None:
        _require_no_keys(manifest, without_keys=without_keys)
    trusted = [*keys, *([key.verifier] if (key := known_key(target)) else [])]
    _refuse_unsigned(of_backup, against, keys, trusted or [signed.key for signed in (of_backup, of_keys) if signed])
    report = Report(as_json=as_json)
    report.result |= {"folder": str(folder), "position": manifest.position}
    with _empty_database(settings, data_dir) as (service_url, admin_url):
        ended = restore_log(admin_url, folder, manifest, keys=key_folder)
        report.write(_("The log is restored up to position {position}.", position=manifest.position))
        access = restored_access(admin_url, ended, is_confirmed=confirm_access)
        archive_keys = [*trusted, *([of_backup.key] if of_backup else [])]
        with administrator(admin_url) as connection, attached_archives(connection, archive_keys):
            jobs = 1 if manifest.position <= FEW_EVENTS else 2
            for projection in PROJECTIONS:
                rebuild(admin_url, connection, projection, jobs=jobs)
        report.write(_("The views and the platform's records are rebuilt."))
        _report_access(access, report)
        report.result["erased_again"] = list(_erased_again(admin_url, report))
        report.result["warning"] = _missing_key(service_url, target, of_backup)
        if report.result["warning"]:
            report.write(translated(report.result["warning"]))
        if verify or against:
            if not trusted and (signed := of_backup or of_keys):
                trusted = [signed.key]
                report.result["key"] = signed.key
                report.write(_(_KEY_OF_BACKUP, key=signed.key))
            checkpoints = [CheckpointNote("the backup's own checkpoint", of_backup.note)] if of_backup else []
            checkpoints += [CheckpointNote(str(file), read_note(file)) for file in against]
            problems, counts = _problems(service_url, checkpoints, trusted, manifest.position)
            if of_keys and not _is_signed(of_keys, trusted):
                problems.append(f"NOT SIGNED  {key_folder}: the keys were not signed with the log's key")
            _report_problems(problems + _different_views(admin_url), counts, report)
        _report_comparison(admin_url, target, manifest.position, report, is_verified=bool(against))
    report.write(_("Start the service; work that was in progress continues."))
    report.end()


class Report:
    """Output of a restore: sentences while it runs, or one JSON object at its end."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self.result: dict[str, Any] = {"is_verified": None, "problems": []}

    def write(self, sentence: str) -> None:
        if not self._as_json:
            click.echo(sentence)

    def end(self) -> None:
        if self._as_json:
            print_result("", self.result, as_json=True)


@contextlib.contextmanager
def _empty_database(settings: Settings, data_dir: Path | None) -> Iterator[tuple[str, str]]:
    """Migrate the database of the settings, or a new embedded database, and yield its URLs: service, administrator."""
    if settings.database_url is not None and data_dir is None:
        setting = "DATABASE_ADMIN_URL" if settings.database_admin_url else "DATABASE_URL"
        admin_url = require_answer(settings.database_admin_url or settings.database_url, setting, needs_schema=False)
        migrate_all(admin_url, service_role=role_of(settings.database_url))
        yield settings.database_url, restore_url(admin_url)
        return
    service = Service(DataFolder(data_dir or settings.data_dir))
    try:
        connections = service.start_servers(None, None, "redis://unused")
        yield connections.database_url, restore_url(connections.admin_url)
    finally:
        service.stop()


def _require_no_keys(manifest: BackupManifest, *, without_keys: bool) -> None:
    """Raise BackupError if the backup needs a folder of keys."""
    if manifest.is_encrypted:
        raise BackupError(_("The keys are not in this backup, which is encrypted: --keys must name their folder."))
    if manifest.needs_keys and not without_keys:
        raise BackupError(
            _("The keys are not in this backup: --keys must name their folder, or --without-keys must be given.")
        )


def _refuse_unsigned(
    of_backup: OwnCheckpoint | None, against: Sequence[Path], keys: Sequence[str], trusted: Sequence[str]
) -> None:
    """Raise BackupError before anything is restored if a signature is wrong.

    A key of --key must have signed the backup, and a trusted key each checkpoint of --against.
    """
    if of_backup and keys and not _is_signed(of_backup, keys):
        raise BackupError(
            _(
                "The backup is not signed with the key that --key names: compare it with the key that "
                "`importledger seal` prints, or give the former key as well."
            )
        )
    for file in against:
        try:
            if trusted:
                read_signed(read_note(file), trusted)
        except Invalid as error:
            raise BackupError(f"--against {file}: {translated(error)}.") from error


def _report_access(access: RestoredAccess, report: Report) -> None:
    report.result["access"] = msgspec.to_builtins(access)
    if access.ended_again:
        accesses = counted(
            access.ended_again, "access that ended after the backup is", "accesses that ended after the backup are"
        )
        report.write(_("{accesses} ended again.", accesses=accesses))
    keys, users = access.unconfirmed_keys, access.disabled_users
    for kind, waiting in ((N_("key"), keys), (N_("user"), users)):
        for name, organisation in waiting.items():
            report.write(
                _(
                    "{kind} {name} of {organisation} waits for confirmation.",
                    kind=_(kind),
                    name=name,
                    organisation=text_of(organisation),
                )
            )
    if keys or users:
        report.write(
            _(
                "ACCESS IS HELD  {keys} and {users} wait for confirmation: they may have been revoked after the "
                "backup.\nConfirm the valid ones: importledger key confirm ID…; user enable ID, and user link ID for "
                "a new password.",
                keys=counted(len(keys), "key"),
                users=counted(len(users), "user"),
            )
        )


def _erased_again(admin_url: str, report: Report) -> Iterator[dict[str, str]]:
    """Erase the persons who were erased according to the folder of keys, but not in the restored log.

    Yield each person.
    """
    ledger = Ledger(admin_url, views=INLINE)
    try:
        with ledger.connection() as connection:
            streams = [row["stream"] for row in connection.execute(SELECT_ERASED)]
        for stream in streams:
            if stream.startswith("participant/"):
                erase_contacts(ledger, stream, reason=_AGAIN, at=now(), by=caused_by())
                report.write(_("The contacts of {stream} are erased again.", stream=text_of(stream)))
                yield {"participant": stream}
                continue
            supplier, external = identity_of(stream)
            try:
                if erase(ledger, supplier, external, reason=_AGAIN, at=now(), by=caused_by()):
                    report.write(_("{external} of {code} is erased again.", external=text_of(external), code=supplier))
                    yield {"supplier": supplier, "external_account_number": external}
            except IllegalTransition:
                sentence = _(
                    "{external} of {code} cannot be erased again while its import is in progress: run "
                    "`importledger erase {code} {external}` when the service runs.",
                    external=text_of(external),
                    code=supplier,
                )
                click.echo(sentence, err=True)
    finally:
        ledger.close()


def _missing_key(database_url: str, target: Settings, of_backup: OwnCheckpoint | None) -> str | None:
    """Return instructions if this machine lacks the key that signed the restored log, else None."""
    key = known_key(target)
    with psycopg.connect(database_url) as connection:
        newest = connection.execute(_SELECT_SIGNER).fetchone()
    if newest is None or (key is not None and key.name == newest[0]):
        return None
    missing = "The sealing key is not here" if key is None else "The sealing key here is not the one of this log"
    former = f" '{of_backup.key}'" if of_backup and of_backup.key.startswith(f"{newest[0]}+") else " VKEY"
    return (
        f"{missing}: the log was signed by {newest[0]}.\n"
        f"Before you start the service, copy secrets/sealing_key of the old service to {target.data_dir}/secrets/, or "
        "set IMPORTLEDGER_SEALING_KEY to it.\n"
        f"Otherwise `verify` calls its {in_english(newest[1], 'checkpoint')} NOT SIGNED, and nothing is sealed. If"
        " the key is lost, "
        f"continue with a new key when there is a new event: importledger seal --former-key{former}"
    )


def _is_signed(of_backup: OwnCheckpoint, keys: Sequence[str]) -> bool:
    """Return True if a trusted verifier key has signed the checkpoint. A key in the backup is not trusted."""
    try:
        read_signed(of_backup.note, keys)
    except Invalid:
        return False
    return True


def _problems(
    service_url: str, checkpoints: Sequence[CheckpointNote], keys: Sequence[str], position: int
) -> tuple[list[str], str]:
    """Return the problems of the restored log, payloads and answers, each as a sentence, and the counts in words."""
    with psycopg.connect(service_url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL TIME ZONE 'UTC'")
        problems = list(gaps(connection))
        if not checkpoints:
            problems.append(
                "NOT SIGNED  the backup has no signed checkpoint of its own: name one of yours with --against"
            )
        elif not keys:
            problems.append("NOT SIGNED  the log's key is not here: name its verifier key with --key")
        elif position:
            events = verify_events(connection, keys, [*database_checkpoints(connection), *checkpoints], is_full=True)
            problems += events.problems
            if uncovered := max(0, position - events.anchored):
                problems.append(
                    f"NOT ANCHORED  no checkpoint covers the {in_english(uncovered, 'event')} after position"
                    f" {events.anchored}"
                )
        payloads, answers = verify_payloads(connection), verify_answers(connection)
        problems += payloads.problems + answers.problems + guards_off(connection)
    event_count, payload_count = counted(position, "event"), counted(payloads.matching, "payload")
    return problems, f"{event_count}, {payload_count}, {counted(answers.matching, 'remembered answer')}"


def _different_views(admin_url: str) -> list[str]:
    with administrator(admin_url) as connection:
        counts = {view.name: verify_projection(admin_url, connection, view, limit=0).count for view in PROJECTIONS}
    return [f"{name} differs in {in_english(count, 'row')}." for name, count in counts.items() if count]


def _report_problems(problems: Sequence[str], counts: str, report: Report) -> None:
    report.result |= {"is_verified": not problems, "problems": list(problems)}
    for sentence in problems:
        click.echo(translated(sentence), err=True)
    if problems:
        report.end()
        raise BackupError(_("The restored log must be complete and unaltered: see the problems above."))
    report.write(_("Verified: no event is missing, every payload matches its digest, every view matches the log."))
    report.write(_("{counts} match the signed checkpoints.", counts=counts))


def _report_comparison(admin_url: str, target: Settings, position: int, report: Report, *, is_verified: bool) -> None:
    """Compare the restored log with the checkpoints outside the database.

    Reports a stop of the intake, or why no comparison was possible: then the relay compares the log when it starts, and
    the intake waits for this comparison. The sealing key is not required, because keys that the log records are also
    trusted. With `is_verified`, the log was compared with a checkpoint of the operator, and an empty place outside the
    database gets copies of the log's checkpoints.
    """
    key, outside_store = known_key(target), checkpoint_copies(target)
    stopped = not_compared = None
    with psycopg.connect(admin_url, autocommit=True) as connection:
        connection.execute("SET statement_timeout = 0; SET TIME ZONE 'UTC'")
        try:
            with sealing_lock(connection, waits=True):
                if is_verified and not outside_store.sizes():
                    copy_checkpoints(connection, outside_store)
                compare_log(connection, [key.verifier] if key else [], outside_store)
            not_compared = None if outside_store.sizes() else f"{outside_store.url} keeps no checkpoint."
        except LogDiffers as differs:
            stopped = str(differs)
        except (SealRefused, CopiesUnavailable) as error:
            not_compared = str(error)
        if not_compared:
            connection.execute("DELETE FROM log_comparisons")
    report.result |= {"intake_stopped": stopped, "not_compared": not_compared}
    if stopped:
        report.write(
            _(
                "INTAKE IS STOPPED  {reason}\nIf the later events are lost, record that and continue: "
                "importledger seal --continue-from {position} --reason TEXT",
                reason=translated(stopped),
                position=position,
            )
        )
    if not_compared:
        report.write(
            _(
                "NOT COMPARED with the checkpoints outside: {reason}\nBefore you start the service, set "
                "IMPORTLEDGER_CHECKPOINTS_URL to where the old service kept them, or copy its folder `checkpoints` to "
                "{folder}. The relay compares when it starts. If they are lost, let intake begin when the service "
                "runs: importledger seal --accept --reason TEXT",
                reason=translated(not_compared),
                folder=target.data_dir,
            )
        )
