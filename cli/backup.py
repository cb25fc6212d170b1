"""The operators' verbs for the worst day: `backup` while the service runs, `restore` into an empty place."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from cli.addresses import admin_url as owner_url
from cli.backup_proof import (
    CHECKPOINT,
    OwnCheckpoint,
    compare_restored,
    is_key_trusted,
    known_key,
    missing_key,
    own_checkpoint,
    problems_of_restored,
    signing,
)
from cli.operator import caused_by
from cli.restored_access import RestoredAccess, restored_access
from cli.service.reach import reach
from cli.service.settings import Settings
from cli.tell import json_option, tell, text_of
from embedded.folder import DataFolder
from embedded.service import Service
from eventstore.aggregates.import_process import identity_of
from eventstore.clock import now
from eventstore.errors import IllegalTransition
from eventstore.log.intake_stop import restoring
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import SELECT_ERASED
from eventstore.operations.backup import BackupError, BackupManifest, back_up, read_manifest
from eventstore.operations.backup import restore as restore_log
from eventstore.operations.migrate import role_of
from eventstore.proof.checkpoints import read_note
from eventstore.proof.verification import Kept
from projections import INLINE, PROJECTIONS
from projections.platform.account_numbers import ACCOUNT_NUMBERS
from projections.retention.archiving import all_put_back
from projections.retention.erasure import erase, erase_contacts
from projections.versions.build import administrator
from projections.versions.compare import verify as verify_projection
from projections.versions.install import migrate_all
from projections.versions.versions import make_anew
from redaction.private_files import open_private

_FOLDER = click.Path(path_type=Path, file_okay=False)
FEW_EVENTS = 10_000
"""Of so few, this process makes the views sooner than processes that have to be started."""


@click.command()
@click.argument("folder", metavar="DIR", type=_FOLDER)
@click.option("--keys", type=_FOLDER, help="A folder of its own for keys and user details: keep it elsewhere.")
@click.option("--without-keys", is_flag=True, help="Leave keys, answers, users and typed reasons out.")
@json_option
def backup(folder: Path, keys: Path | None, without_keys: bool, as_json: bool) -> None:
    """Write a backup into DIR, from one snapshot, while the service runs.

    Where the sealing key is, the backup gets a signed checkpoint of its own, which `restore --verify` compares it with.
    """
    url, has_keys = owner_url(), not without_keys
    sign, why_unsigned = signing(url, Settings.from_environment())
    manifest = back_up(url, folder, ACCOUNT_NUMBERS, keys=keys, has_keys=has_keys, sign=sign)
    rows = ", ".join(f"{part.rows} {name.replace('_', ' ')}" for name, part in manifest.parts.items())
    counts = {name: part.rows for name, part in manifest.parts.items()}
    told = {"folder": str(folder), "position": manifest.position, "rows": counts, "warning": why_unsigned}
    tell(f"{folder} holds the log up to position {manifest.position}: {rows}.", told, as_json=as_json)
    if why_unsigned and not as_json:
        click.echo(why_unsigned, err=True)
    if own := own_checkpoint(folder):
        with open_private(folder / CHECKPOINT) as file:
            file.write(own.note.encode())
        if not as_json:
            click.echo(f"Its signed checkpoint is in {folder / CHECKPOINT}: keep a copy elsewhere.")


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--data-dir", type=click.Path(path_type=Path), help="Restore into this folder, which is new.")
@click.option("--verify", is_flag=True, help="Check every payload's digest, and the views against the log.")
@click.option(
    "--against", "against", multiple=True, type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="CHECKPOINT", help="A checkpoint that you have kept, to verify the log against; repeatable.",
)  # fmt: skip
@click.option(
    "--key", "vkeys", multiple=True, metavar="VKEY", help="The log's verifier key; repeatable after a change."
)
@click.option("--keys", type=_FOLDER, help="The folder of keys, the newest that there is: it knows who was erased.")
@click.option("--without-keys", is_flag=True, help="Restore without keys: no payload can be read then.")
@click.option(
    "--confirm-access", is_flag=True,
    help="Keep keys, users and passwords valid: none was revoked later than the backup and the keys show.",
)  # fmt: skip
@json_option
def restore(
    folder: Path,
    data_dir: Path | None,
    verify: bool,
    against: tuple[Path, ...],
    vkeys: tuple[str, ...],
    keys: Path | None,
    without_keys: bool,
    confirm_access: bool,
    as_json: bool,
) -> None:
    """Restore the backup in DIR into an empty data folder, or the empty database at DATABASE_URL.

    Persons who were erased after the backup, by the keys that are given, are erased again. Keys that were revoked since
    are revoked, and all others wait for `key confirm`; users wait for `user enable`. --verify (and --against) compares
    the log with the checkpoint that was signed with the backup, and with yours.
    """
    settings = Settings.from_environment()
    target = DataFolder(data_dir or settings.data_dir)
    manifest, own = read_manifest(folder), own_checkpoint(folder)
    of_keys = own_checkpoint(keys) if keys is not None else None
    if keys is None:
        _require_no_keys(manifest, without_keys=without_keys)
    report = Report(as_json=as_json)
    report.told |= {"folder": str(folder), "position": manifest.position}
    with _empty_database(data_dir) as (service_url, admin_url):
        ended = restore_log(admin_url, folder, manifest, ACCOUNT_NUMBERS, keys=keys)
        report.say(f"The log is restored up to position {manifest.position}.")
        access = restored_access(admin_url, ended, is_confirmed=confirm_access)
        signers = _signers(settings, target, own, vkeys)
        with administrator(admin_url) as connection, all_put_back(connection, signers):
            jobs = 1 if manifest.position <= FEW_EVENTS else 2
            for projection in PROJECTIONS:
                make_anew(admin_url, connection, projection, jobs=jobs)
        report.say("The views and the platform's records are made anew.")
        _tell_access(access, report)
        report.told["erased_again"] = list(_erased_again(admin_url, report))
        report.told["warning"] = missing_key(service_url, settings, target, own)
        if report.told["warning"]:
            report.say(report.told["warning"])
        if verify or against:
            signed = [one for one in (own, of_keys) if one]
            trusted = _trusted(settings, target, signed, vkeys, report)
            kept = [Kept("the backup's own checkpoint", own.note)] if own else []
            kept += [Kept(str(file), read_note(file)) for file in against]
            problems, counts = problems_of_restored(service_url, kept, trusted, manifest.position)
            if of_keys and not is_key_trusted(of_keys, trusted):
                problems.append(f"NOT SIGNED  {keys}: the keys were not signed with the log's key")
            _tell(problems + _different_views(admin_url), counts, report)
        _tell_comparison(compare_restored(admin_url, settings, target), manifest.position, target, report)
    report.say("Start the service; work that was in progress is taken up again.")
    report.end()


def _require_no_keys(manifest: BackupManifest, *, without_keys: bool) -> None:
    """Raises BackupError for a backup that needs a folder of keys."""
    if manifest.is_encrypted:
        raise BackupError("The keys are not in this backup, which is encrypted: --keys must name their folder.")
    if manifest.needs_keys and not without_keys:
        raise BackupError(
            "The keys are not in this backup: --keys must name their folder, or --without-keys must be given."
        )


def _tell_access(access: RestoredAccess, report: "Report") -> None:
    report.told["access"] = msgspec.to_builtins(access)
    if access.ended_again:
        report.say(f"{access.ended_again} powers that ended after the backup are ended again.")
    keys, users = access.unconfirmed_keys, access.disabled_users
    if keys or users:
        for kind, held in (("key", keys), ("user", users)):
            for name, organisation in held.items():
                report.say(f"{kind} {name} of {text_of(organisation)} waits.")
        report.say(
            f"ACCESS IS HELD  {len(keys)} keys and {len(users)} users wait: any may have been revoked after the backup."
            "\nMake those valid that still are: importledger key confirm ID…; user enable ID, and user link ID for a"
            " new password."
        )


def _tell_comparison(
    compared: tuple[str | None, str | None], position: int, target: DataFolder, report: "Report"
) -> None:
    stopped, not_compared = compared
    report.told |= {"intake_stopped": stopped, "not_compared": not_compared}
    if stopped:
        report.say(
            f"INTAKE IS STOPPED  {stopped}\nIf the later events cannot be had any more, go on"
            f" openly: importledger seal --continue-from {position} --reason TEXT"
        )
    if not_compared:
        report.say(
            f"NOT COMPARED with the checkpoints outside: {not_compared}\nBefore you start the service, set"
            " IMPORTLEDGER_CHECKPOINTS_URL to where the old service kept them, or copy its folder `checkpoints` to"
            f" {target.path}. The relay compares when it starts."
        )


def _signers(settings: Settings, target: DataFolder, own: OwnCheckpoint | None, named: Sequence[str]) -> Sequence[str]:
    """The verifier keys that an archive of the restored log may be signed with."""
    here = known_key(settings, target)
    return [*named, *([here.verifier] if here else []), *([own.key] if own else [])]


class Report:
    """What a restore says while it goes on, or as one JSON object at its end."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self.told: dict[str, Any] = {"is_verified": None, "problems": []}

    def say(self, sentence: str) -> None:
        if not self._as_json:
            click.echo(sentence)

    def end(self) -> None:
        if self._as_json:
            tell("", self.told, as_json=True)


_AGAIN = "erased before the restore"


def _erased_again(admin_url: str, report: Report) -> Iterator[dict[str, str]]:
    """Whoever was erased by the keys, and not yet by the log, which may be older."""
    ledger = Ledger(admin_url, views=INLINE)
    try:
        with ledger.connection() as connection:
            streams = [row["stream"] for row in connection.execute(SELECT_ERASED)]
        for stream in streams:
            if stream.startswith("participant/"):
                erase_contacts(ledger, stream, reason=_AGAIN, at=now(), by=caused_by())
                report.say(f"The contacts of {text_of(stream)} are erased again.")
                yield {"participant": stream}
                continue
            supplier, external = identity_of(stream)
            try:
                if erase(ledger, supplier, external, reason=_AGAIN, at=now(), by=caused_by()):
                    report.say(f"{text_of(external)} of {supplier} is erased again.")
                    yield {"supplier": supplier, "external_account_number": external}
            except IllegalTransition:
                click.echo(
                    f"{text_of(external)} of {supplier} cannot be erased again while its import is in progress: run "
                    f"`importledger erase {supplier} {text_of(external)}` when the service runs.",
                    err=True,
                )
    finally:
        ledger.close()


def _trusted(
    settings: Settings, target: DataFolder, signed: Sequence[OwnCheckpoint], named: Sequence[str], report: Report
) -> list[str]:
    """The verifier keys to verify with: those that were named and the one that is here, or else the backup's own."""
    here = known_key(settings, target)
    trusted = [*named, *([here.verifier] if here else [])]
    if trusted or not signed:
        return trusted
    report.told["key"] = signed[0].key
    report.say(
        f"The verifier key came with the backup. Compare it with yours, or name yours with --key: {signed[0].key}"
    )
    return [signed[0].key]


def _different_views(admin_url: str) -> list[str]:
    with administrator(admin_url) as connection:
        counts = {one.name: verify_projection(admin_url, connection, one, limit=0).count for one in PROJECTIONS}
    return [f"{name} differs in {count} rows." for name, count in counts.items() if count]


def _tell(problems: Sequence[str], counts: str, report: Report) -> None:
    report.told |= {"is_verified": not problems, "problems": list(problems)}
    for sentence in problems:
        click.echo(sentence, err=True)
    if problems:
        report.end()
        raise BackupError("The restored log is not whole.")
    report.say("Verified: no gap, every payload is there and as it was received, every view is what the log says.")
    report.say(f"{counts}: all as the signed checkpoints say.")


@contextlib.contextmanager
def _empty_database(data_dir: Path | None) -> Iterator[tuple[str, str]]:
    """(service's URL, administrator's URL) of a migrated database: the one of the settings, or a fresh embedded one."""
    settings = Settings.from_environment()
    if settings.database_url is not None and data_dir is None:
        named = "DATABASE_ADMIN_URL" if settings.database_admin_url else "DATABASE_URL"
        admin_url = reach(settings.database_admin_url or settings.database_url, named, needs_schema=False)
        migrate_all(admin_url, service_role=role_of(settings.database_url))
        yield settings.database_url, restoring(admin_url)
        return
    service = Service(DataFolder(data_dir or settings.data_dir))
    try:
        connections = service.start_servers(None, None, "redis://unused")
        yield connections.database_url, restoring(connections.admin_url)
    finally:
        service.stop()
