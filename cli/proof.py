"""The verb `proof`, which writes the history of an account to a file that anybody can check."""

from pathlib import Path
from typing import Any

import click
from psycopg import Connection

from cli.addresses import connected
from cli.known import require_import
from cli.language import _, counted, translated
from cli.output import NewFile, json_option, print_result
from cli.seal import sealed_now
from cli.service.sealing import sealing_key
from cli.service.settings import Settings
from cli.verify import against_option
from eventstore.log.payloads import detached_payloads
from eventstore.log.rows import rows_of
from eventstore.proof.checkpoints import LogKey, read_note, read_signed
from eventstore.proof.proof import write_proof
from eventstore.proof.verifier import Checkpoint, Invalid, RecordedLoss, loss_of
from projections.queries.history import account_streams


@click.command()
@click.argument("supplier_code", metavar="SUPPLIER")
@click.argument("external")
@click.option("-o", "--output", required=True, type=NewFile(), help="Output file FILE.zip, which must be new.")
@click.option("--payloads", is_flag=True, help="Payloads too: personal data.")
@against_option
@json_option
def proof(
    supplier_code: str, external: str, output: Path, payloads: bool, against: tuple[Path, ...], as_json: bool
) -> None:
    """Write a proof of what happened to an account.

    EXTERNAL is the external account number at SUPPLIER. `importledger-verify` checks the proof on any machine. With
    --against, the proof also shows that the log continues this checkpoint.
    """
    settings = Settings.from_environment()
    key = sealing_key(settings)
    with connected() as connection:
        require_import(connection, supplier_code, external)
        sealed = sealed_now(connection, key, settings)
        streams = account_streams(connection, supplier_code, external)
        if sealed is None:
            raise click.ClickException(_("The log is empty: there is nothing to prove."))
        losses = _recorded_losses(connection, key)
        checkpoints = [(file, _checkpoint(file, key)) for file in against]
        # The log does not continue a checkpoint of events whose loss is recorded; the verifier reports this.
        consistent = {named.size: read_note(file) for file, named in checkpoints if not loss_of(named, losses)}
        newest = (sealed.checkpoint, sealed.note)
        made = write_proof(
            connection, output, streams, newest, key.verifier, further_notes=consistent, payloads=payloads
        )
        more, elsewhere = detached_payloads(connection, supplier_code, made.detached)
    result = {"file": str(output), "events": made.events, "payloads": made.payloads, "size": made.size}
    events, payloads_made = counted(made.events, "event"), counted(made.payloads, "payload")
    sentence = _(
        "{output} proves {events} in a log of {size:,}, with {payloads}.",
        output=output, events=events, size=made.size, payloads=payloads_made,
    )  # fmt: skip
    check = _("Check it anywhere: importledger-verify {file} --key '{key}'", file=output.name, key=key.verifier)
    print_result(f"{sentence}{translated(more)}\n{check}", result | elsewhere | {"key": key.verifier}, as_json=as_json)


def _recorded_losses(connection: Connection[Any], key: LogKey) -> list[RecordedLoss]:
    """Return the losses of events that checkpoints in the database record."""
    notes = rows_of(connection, "SELECT note FROM log_checkpoints WHERE continues IS NOT NULL")
    signed = [read_signed(note, [key.verifier]) for (note,) in notes if note.startswith(f"{key.name}\n")]
    return [checkpoint.loss for checkpoint in signed if checkpoint.loss]


def _checkpoint(file: Path, key: LogKey) -> Checkpoint:
    try:
        return read_signed(read_note(file), [key.verifier])
    except Invalid as error:
        raise click.ClickException(f"{file}: {translated(error)}") from error
