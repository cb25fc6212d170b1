"""The verb `seal`, which signs a checkpoint of the log, or ends a stop of the intake."""

import json
from typing import Any

import click
from psycopg import Connection

from cli.addresses import connected
from cli.language import _, counted
from cli.operator import caused_by
from cli.output import json_option, print_result, progress_bar
from cli.service.sealing import checkpoint_copies, sealing_key
from cli.service.settings import Settings
from eventstore.clock import now
from eventstore.log.intake_stop import end_stop, intake_stop, note_comparison
from eventstore.proof.checkpoints import CopiesUnavailable, LogKey
from eventstore.proof.sealing import Sealed, continue_from, sealing_lock
from eventstore.proof.sealing import seal as seal_log
from projections.auxiliary.typed_reasons import MAX_REASON


@click.command()
@click.option("--former-key", metavar="VKEY", help="Previous verifier key, after a change of the sealing key.")
@click.option(
    "--continue-from", "position", type=click.IntRange(min=0), metavar="N",
    help="Last position that still exists, if later signed events are lost permanently. Requires --reason.",
)  # fmt: skip
@click.option("--accept", is_flag=True, help="Start of a stopped intake, without a checkpoint. Requires --reason.")
@click.option("--reason", help="Reason, kept in the log and with --continue-from signed: no personal data.")
@json_option
def seal(former_key: str | None, position: int | None, accept: bool, reason: str | None, as_json: bool) -> None:
    """Seal the log and print the signed checkpoint.

    Keep the checkpoint, so that `verify --against` can compare the log with this checkpoint later.

    If the log does not match its signed checkpoints, the service signs no checkpoint and accepts no account. If events
    were lost permanently, as in a failover, --continue-from N --reason TEXT signs "continues from N, lost M–K", which
    `verify` shows from then on. TEXT is signed permanently and must contain no personal data. --accept --reason TEXT
    only starts the intake of accounts: the service signs no checkpoint while the log differs. --accept also starts the
    intake if the log could not be compared after a start of the database.
    """
    if accept and position is not None:
        raise click.UsageError(_("--accept and --continue-from must not be used together."))
    if (position is None and not accept) != (reason is None):
        raise click.UsageError(_("--reason must be given with --continue-from and with --accept, and only then."))
    if accept:
        _accept(_one_line(reason or ""), as_json=as_json)
        return
    settings = Settings.from_environment()
    key = sealing_key(settings)
    with connected() as connection:
        sealed = sealed_now(connection, key, settings, former_key, position, reason)
    if sealed is None:
        raise click.ClickException(_("The log is empty: there is nothing to seal."))
    if as_json:
        result = {"size": sealed.checkpoint.size, "root": sealed.checkpoint.root.hex(), "time": sealed.checkpoint.time}
        click.echo(json.dumps(result | {"is_new": sealed.is_new, "key": key.verifier, "note": sealed.note}))
        return
    click.echo(sealed.note, nl=False)
    click.echo(_("Verifier key: {key}", key=key.verifier), err=True)


def _accept(reason: str, *, as_json: bool) -> None:
    """End a stop of the intake without sealing, or start an intake that waits for the comparison of the log."""
    with connected() as connection:
        stop = intake_stop(connection)
        if stop is None and note_comparison(connection, by=caused_by(), reason=reason):
            sentence = _("The log was not compared with its checkpoints: the relay does so before it seals.")
        elif stop is None or not end_stop(connection, by=caused_by(), reason=reason):
            raise click.ClickException(_("Intake is not stopped: there is nothing to accept."))
        else:
            sentence = _(
                "The log is not sealed while it differs from the checkpoint of {events}: "
                "`importledger seal --continue-from` seals it.",
                events=counted(stop.size, "event"),
            )
    size, stopped_at = (stop.size, stop.stopped_at) if stop else (None, None)
    result = {"is_accepted": True, "size": size, "stopped_at": stopped_at}
    print_result(f"{_('Intake continues.')} {sentence}", result, as_json=as_json)


def sealed_now(
    connection: Connection[Any],
    key: LogKey,
    settings: Settings,
    former_key: str | None = None,
    position: int | None = None,
    reason: str | None = None,
) -> Sealed | None:
    """Seal the log. With `position` and `reason`, seal a log that lost the events after this position.

    Return the newest checkpoint; None for an empty log.
    """
    with sealing_lock(connection, waits=True), progress_bar("events") as progress:
        try:
            if position is not None:
                return continue_from(
                    connection, key, checkpoint_copies(settings), position, _one_line(reason or ""),
                    at=now(), by=caused_by(), former_key=former_key, progress=progress,
                )  # fmt: skip
            return seal_log(
                connection, key, checkpoint_copies(settings), at=now(), former_key=former_key, progress=progress
            )
        except CopiesUnavailable as error:
            raise click.ClickException(_("The checkpoint could not be kept outside: {error}", error=error)) from error


def _one_line(reason: str) -> str:
    """Return the reason as a line of a checkpoint. Raises BadParameter if it is empty, too long or not printable."""
    line = " ".join(reason.split())
    if not 0 < len(line) <= MAX_REASON or not line.isprintable():
        raise click.BadParameter(
            _("A reason must be one line of at most {most} printable characters.", most=MAX_REASON)
        )
    return line
