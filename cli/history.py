"""The verb `history`: every event of an account or of a market record, or the difference of two of its payloads."""

from collections.abc import Mapping

import click
import msgspec

from cli.addresses import answer_of
from cli.known import reason_texts, require_import, require_stream
from cli.language import _, translated
from cli.operator import open_ledger
from cli.output import lines_option, print_result, text_of
from eventstore.aggregates.import_process import ImportStaged
from eventstore.events import Recorded
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import reason_missing
from projections.queries.history import (
    AsOf,
    MomentAhead,
    history_entry,
    of_import,
    read_account_history,
    read_history,
)
from schemas.difference import difference

_encoder = msgspec.json.Encoder(decimal_format="number")


class MomentParam(click.ParamType[AsOf]):
    """A position, a time, or the end or beginning of a day in German market time."""

    name = "TIME|DAY|POSITION"

    def __init__(self, *, is_end: bool = True) -> None:
        self._is_end = is_end

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> AsOf:
        try:
            return AsOf.of(value, is_end=self._is_end)
        except ValueError as error:
            self.fail(f"{value!r}: {translated(error)}", param, ctx)


def position_of(moment: AsOf | None) -> int | None:
    """Return the last position that belongs to a moment; None without a moment.

    Raises BadParameter for a moment in the future.
    """
    try:
        return answer_of(moment.position_in) if moment else None
    except MomentAhead as error:
        raise click.BadParameter(translated(error.args[0])) from error


as_of_option = click.option(
    "--as-of", "as_of", type=MomentParam(), help="Moment in the past: a position, a time, or a day that has ended."
)


@click.command()
@click.argument("supplier_code", metavar="SUPPLIER")
@click.argument("external", required=False)
@as_of_option
@click.option("--payloads", is_flag=True, help="Payloads too, as they were received: personal data.")
@click.option(
    "--difference",
    "versions",
    nargs=2,
    type=int,
    metavar="V1 V2",
    help="Difference between the payloads of two events.",
)
@lines_option
def history(
    supplier_code: str,
    external: str | None,
    as_of: AsOf | None,
    payloads: bool,
    versions: tuple[int, int] | None,
    as_json: bool,
) -> None:
    """Show every event of an account, oldest first.

    EXTERNAL is the external account number at SUPPLIER. The history includes events of the account's e-mails and
    attached records.

    Instead of SUPPLIER and EXTERNAL, name a record of the market: participant/ORGANISATION/CODE or
    price-sheet/ORGANISATION/CODE/DOCUMENT. Records of the operator have no organisation: participant//CODE.
    """
    stream = market_stream(supplier_code) if external is None else ""
    with open_ledger() as ledger:
        with ledger.connection() as connection:
            if external is not None:
                require_import(connection, supplier_code, external)
                upto = position_of(as_of)
                events = read_account_history(connection, supplier_code, external, upto)
            else:
                require_stream(connection, stream)
                upto = position_of(as_of)
                events = read_history(connection, [stream], upto)
        if not events:
            if external is None:
                raise click.ClickException(_("There was no event of {stream} then.", stream=supplier_code))
            raise click.ClickException(
                _("There was no import of {external} for {code} then.", external=external, code=supplier_code)
            )
        if versions is not None:
            _print_difference(ledger, of_import(events), versions, as_json=as_json)
            return
        texts = reason_texts(reason for recorded in events if (reason := getattr(recorded.event, "reason", "")))
        for recorded in events:
            _print_event(recorded, texts, as_json=as_json)
            if payloads:
                _print_payload(ledger, recorded)


def market_stream(name: str) -> str:
    """Return the argument if it names the stream of a market participant or price sheet. Raises UsageError."""
    if not name.startswith(("participant/", "price-sheet/")):
        raise click.UsageError(
            _(
                "Name SUPPLIER and EXTERNAL, or participant/ORGANISATION/CODE, or "
                "price-sheet/ORGANISATION/CODE/DOCUMENT."
            )
        )
    return name


def _print_event(recorded: Recorded, texts: Mapping[str, str], *, as_json: bool) -> None:
    """Print an event. Instead of the id of a reason that was typed in the console, print the text of the reason."""
    entry = history_entry(recorded)
    if (reason := entry.data.get("reason", "")) in texts:
        entry = msgspec.structs.replace(entry, data=entry.data | {"reason": texts[reason]})
    fields = " ".join(f"{name}={text_of(value)}" for name, value in entry.data.items())
    kind, at = entry.stream.split("/", 1)[0], text_of(entry.at)
    line = f"{entry.position:>8}  {at}  {kind} {entry.event:<18} {entry.by}  {fields}"
    print_result(line, entry, as_json=as_json)


def _print_payload(ledger: Ledger, recorded: Recorded) -> None:
    digest = getattr(recorded.event, "payload_sha256", None)
    if digest is None or recorded.topic == "mail_requested.v1":
        return
    body = ledger.payloads({recorded.stream: digest}).get(recorded.stream)
    if body is not None:
        click.echo(body)
        return
    with ledger.connection() as connection:
        why = reason_missing(connection, recorded.supplier, recorded.stream)
    click.echo(" " * 10 + _("the payload {digest} {why}", digest=digest, why=translated(why)))


def _print_difference(ledger: Ledger, events: list[Recorded], versions: tuple[int, int], *, as_json: bool) -> None:
    bodies = []
    for version in versions:
        staged = next((r for r in events if r.version == version and isinstance(r.event, ImportStaged)), None)
        if staged is None or not isinstance(staged.event, ImportStaged):
            raise click.BadParameter(_("Version {version} has not staged a payload.", version=version))
        body = ledger.payloads({staged.stream: staged.event.payload_sha256}).get(staged.stream)
        if body is None:
            with ledger.connection() as connection:
                why = reason_missing(connection, staged.supplier, staged.stream)
            sentence = _("The payload of version {version} {why}.", version=version, why=translated(why))
            raise click.ClickException(sentence)
        bodies.append(body)
    before, after = bodies
    for change in difference(before, after):
        if as_json:
            click.echo(_encoder.encode(change))
        else:
            click.echo(f"{_(change.kind):<8} {text_of(change.path)}: {_shown(change.before)} → {_shown(change.after)}")


def _shown(value: object) -> str:
    return text_of(_encoder.encode(value).decode())
