"""The verbs of retention: `archive` a finished supplier into an object store, `archive verify`, `archive attach`.

An archive is checked against its log, which names the archive's file and digest. Events are never deleted.
"""

from urllib.parse import urlsplit

import click

from cli.addresses import admin_url, connected
from cli.known import require_supplier
from cli.language import N_, _, counted
from cli.operator import caused_by, open_ledger
from cli.output import json_option, print_result, progress_bar
from cli.seal import sealed_now
from cli.service.sealing import sealing_key
from cli.service.settings import Settings
from eventstore.clock import now
from eventstore.log.payloads import archive_of
from projections import PROJECTIONS
from projections.retention.archiving import (
    NotArchivable,
    archive_lock,
    archive_supplier,
    attach_archive,
    check_archive,
    downloaded_archive,
    refuse_unfinished,
)
from projections.versions.build import administrator

_SCHEMES = ("file", "s3", "gs", "az")
_READERS = [view.name for view in PROJECTIONS if view.reads_payloads and not view.is_inline]


class SupplierFirst(click.Group):
    """Group whose first argument is a supplier if it is not a subcommand, as in `archive NORDWIND --to URL`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args = ["supplier", *args]
        return super().parse_args(ctx, args)


@click.group(cls=SupplierFirst, subcommand_metavar="SUPPLIER --to URL | COMMAND [ARGS]...")
def archive() -> None:
    """Archive a finished supplier in an object store.

    `archive SUPPLIER --to URL` writes events, payloads and proofs to a signed file, reads the file again and checks it.
    Then `archive` deletes the payloads from the database: only the archive has the encrypted payloads, without their
    keys. Events stay in the database.
    """


def _archive_url(context: click.Context, parameter: click.Parameter, value: str) -> str:
    parts = urlsplit(value)
    is_complete = not parts.netloc and parts.path.startswith("/") if parts.scheme == "file" else bool(parts.netloc)
    if parts.scheme not in _SCHEMES or not is_complete or parts.query or parts.username:
        raise click.BadParameter(
            _("The URL must be file:///folder, s3://bucket/folder, gs://… or az://…, without a secret.")
        )
    return value.rstrip("/")


@archive.command("supplier")
@click.argument("code", metavar="SUPPLIER")
@click.option(
    "--to",
    "url",
    required=True,
    metavar="URL",
    callback=_archive_url,
    help="Place: file:///…, s3://…, gs://…, az://….",
)
@json_option
def archive_one(code: str, url: str, as_json: bool) -> None:
    """Archive a supplier, then delete its payloads from Postgres.

    The status of SUPPLIER must be complete, without pending imports. If `archive` is killed, run it again. `archive
    attach` writes the payloads into the database again.
    """
    settings = Settings.from_environment()
    key = sealing_key(settings)
    with connected() as connection:
        require_supplier(connection, code)
        sealed = sealed_now(connection, key, settings)
    assert sealed is not None, "the supplier has an event"
    with (
        administrator(admin_url()) as connection,
        archive_lock(connection, code),
        open_ledger() as ledger,
        progress_bar("events") as progress,
    ):
        if archive_of(connection, code) is None:
            refuse_unfinished(connection, code, sealed.checkpoint.size, _READERS)
        archived, detached = archive_supplier(
            connection, ledger, code, url, (sealed.checkpoint, sealed.note), key,
            at=now(), by=caused_by(), progress=progress,
        )  # fmt: skip
    result = {"supplier": code, "url": archived.url, "sha256": archived.sha256, "position": archived.position}
    sentence = _(
        "{code} is archived in {url}, up to position {position:,}; {payloads} there, {detached} detached now.",
        code=code, url=archived.url, position=archived.position,
        payloads=counted(archived.payloads, "payload lies", "payloads lie"), detached=counted(detached, "was", "were"),
    )  # fmt: skip
    print_result(sentence, result | {"payloads": archived.payloads, "detached": detached}, as_json=as_json)


@archive.command("verify")
@click.argument("code", metavar="SUPPLIER")
@json_option
def verify_archive(code: str, as_json: bool) -> None:
    """Check an archive: file, signature, proofs and payloads."""
    settings = Settings.from_environment()
    with connected() as connection:
        require_supplier(connection, code)
        archived = archive_of(connection, code)
        if archived is None:
            raise NotArchivable(_("{code} is not archived.", code=code))
        with downloaded_archive(archived, [sealing_key(settings).verifier]) as opened:
            checked = check_archive(connection, opened)
    contents = checked.contents
    result = {"supplier": code, "url": archived.url, "position": contents.position, "events": contents.events}
    sentence = _(
        "{url} matches its signature: {events} proved up to position {position:,}, {payloads}, {erased} erased.",
        url=archived.url, events=counted(contents.events, "event"), position=contents.position,
        payloads=counted(checked.opened, "payload matches its digest", "payloads match their digests"),
        erased=counted(checked.erased, "is of a person who was", "are of persons who were"),
    )  # fmt: skip
    print_result(sentence, result | {"payloads": checked.opened, "erased": checked.erased}, as_json=as_json)


@archive.command("attach")
@click.argument("code", metavar="SUPPLIER")
@json_option
def attach(code: str, as_json: bool) -> None:
    """Attach the payloads of an archive to the database again.

    Leaves out payloads of erased persons. Does not delete the archive of SUPPLIER.
    """
    settings = Settings.from_environment()
    with administrator(admin_url()) as connection, open_ledger() as ledger:
        require_supplier(connection, code)
        archived = archive_of(connection, code)
        if archived is None:
            sentence = _("{code} is not archived.", code=code)
            print_result(sentence, {"supplier": code, "is_changed": False}, as_json=as_json)
            return
        with archive_lock(connection, code), downloaded_archive(archived, [sealing_key(settings).verifier]) as opened:
            inserted = attach_archive(connection, ledger, code, opened, at=now(), by=caused_by())
    result = {"supplier": code, "url": archived.url, "payloads": inserted, "is_changed": True}
    values = {"payloads": counted(inserted, "payload"), "code": code, "url": archived.url}
    is_one = inserted == 1
    back = N_("{payloads} of {code} is back from {url}.") if is_one else N_("{payloads} of {code} are back from {url}.")
    print_result(_(back, **values), result, as_json=as_json)
