"""The auditors' verbs: what happened to an account, what was known at a moment, what differs between two payloads."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import click
import msgspec

from cli.addresses import answer_of
from cli.known import require_import, require_stream, require_supplier
from cli.operator import open_ledger
from cli.tell import text_of
from eventstore.aggregates.import_process import ImportStaged
from eventstore.events import Recorded
from eventstore.log.archived import why_missing
from eventstore.log.ledger import Ledger
from projections.queries.history import (
    AsOf,
    MomentAhead,
    history_entry,
    of_import,
    read_account_history,
    read_history,
    read_statuses,
    status_record,
)
from projections.queries.missing_documents import naming_documents
from projections.views.error_statistics import SELECT_REFUSALS
from schemas.difference import difference

_encoder = msgspec.json.Encoder(decimal_format="number")


class MomentParam(click.ParamType[AsOf]):
    """A position, a time, or a day: its end in German market time, or its beginning."""

    name = "TIME|DAY|POSITION"

    def __init__(self, *, is_end: bool = True) -> None:
        self._is_end = is_end

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> AsOf:
        try:
            return AsOf.of(value, is_end=self._is_end)
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


def position_of(moment: AsOf | None) -> int | None:
    """The last position that belongs to a moment; None without one. Raises BadParameter for one that is ahead."""
    try:
        return answer_of(moment.position_in) if moment else None
    except MomentAhead as error:
        raise click.BadParameter(str(error)) from error


as_of_option = click.option(
    "--as-of",
    "as_of",
    type=MomentParam(),
    help="What was known then: a position, a time, or a day that has ended (in German market time).",
)


@click.command()
@click.argument("supplier_code", metavar="SUPPLIER")
@click.argument("external", required=False)
@as_of_option
@click.option("--payloads", is_flag=True, help="Also what was sent, as it was received.")
@click.option("--difference", "versions", nargs=2, type=int, help="What differs between the payloads of two versions.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def history(
    supplier_code: str,
    external: str | None,
    as_of: AsOf | None,
    payloads: bool,
    versions: tuple[int, int] | None,
    as_json: bool,
) -> None:
    """Every event of the import of EXTERNAL for SUPPLIER and of what was attached to its account, oldest first.

    Alone, participant/ORGANISATION/CODE or price-sheet/ORGANISATION/CODE/DOCUMENT names a record of the market. The
    organisation is empty for records of the operator: participant//CODE.
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
            told = f"import of {external} for {supplier_code}" if external is not None else f"event of {supplier_code}"
            raise click.ClickException(f"There was no {told} then.")
        if versions is not None:
            _print_difference(ledger, of_import(events), versions, as_json=as_json)
            return
        for recorded in events:
            _print_event(recorded, as_json=as_json)
            if payloads:
                _print_payload(ledger, recorded)


def market_stream(name: str) -> str:
    """The stream that a single argument names: of a market participant or a price sheet."""
    if not name.startswith(("participant/", "price-sheet/")):
        raise click.UsageError(
            "Name SUPPLIER and EXTERNAL, or participant/ORGANISATION/CODE, or price-sheet/ORGANISATION/CODE/DOCUMENT."
        )
    return name


@click.command()
@click.argument("supplier_code", metavar="SUPPLIER")
@click.argument("external", required=False)
@as_of_option
@click.option("--list", "as_list", is_flag=True, help="Every import with its status, instead of counts.")
@click.option("--refusals", "of_refusals", is_flag=True, help="Why requests were refused, most frequent first.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def status(
    supplier_code: str, external: str | None, as_of: AsOf | None, as_list: bool, of_refusals: bool, as_json: bool
) -> None:
    """The status of one import, or how many of SUPPLIER's are in which; now, or as of a moment."""
    if of_refusals:
        if external is not None or as_of is not None or as_list:
            raise click.UsageError("--refusals must stand with SUPPLIER alone.")
        _print_refusals(supplier_code, as_json=as_json)
        return
    with open_ledger() as ledger, ledger.connection() as connection:
        if external is not None:
            require_import(connection, supplier_code, external)
            upto = position_of(as_of)
            record = status_record(of_import(read_account_history(connection, supplier_code, external, upto)))
            if record is None:
                raise click.ClickException(f"There was no import of {external} for {supplier_code} then.")
            record = naming_documents(ledger, supplier_code, {external: record})[external]
            click.echo(msgspec.json.encode(record) if as_json else _lines(msgspec.to_builtins(record)))
            return
        require_supplier(connection, supplier_code)
        upto = position_of(as_of)
        statuses = read_statuses(connection, supplier_code, upto)
    told = statuses if as_list else dict(sorted(Counter(statuses.values()).items()))
    click.echo(msgspec.json.encode(told) if as_json else _lines(told))


def _print_refusals(supplier_code: str, *, as_json: bool) -> None:
    with open_ledger() as ledger, ledger.connection() as connection:
        require_supplier(connection, supplier_code)
        for row in connection.execute(SELECT_REFUSALS, (supplier_code,)):
            click.echo(msgspec.json.encode(row) if as_json else "{number:>8}  {code}  {path}".format(**row))


def _lines(told: Mapping[str, Any]) -> str:
    return "\n".join(f"{text_of(name):<20} {text_of(said)}" for name, said in told.items())


def _print_event(recorded: Recorded, *, as_json: bool) -> None:
    entry = history_entry(recorded)
    if as_json:
        click.echo(msgspec.json.encode(entry))
        return
    said = " ".join(f"{name}={text_of(value)}" for name, value in entry.data.items())
    kind, at = entry.stream.split("/", 1)[0], text_of(entry.at)
    click.echo(f"{entry.position:>8}  {at}  {kind} {entry.event:<18} {entry.by}  {said}")


def _print_payload(ledger: Ledger, recorded: Recorded) -> None:
    digest = getattr(recorded.event, "payload_sha256", None)
    if digest is None or recorded.topic == "mail_requested.v1":
        return
    body = ledger.payloads({recorded.stream: digest}).get(recorded.stream)
    if body is not None:
        click.echo(body)
        return
    with ledger.connection() as connection:
        why = why_missing(connection, recorded.supplier, recorded.stream)
    click.echo(f"          the payload {digest} {why}")


def _print_difference(ledger: Ledger, events: list[Recorded], versions: tuple[int, int], *, as_json: bool) -> None:
    bodies = []
    for version in versions:
        staged = next((r for r in events if r.version == version and isinstance(r.event, ImportStaged)), None)
        if staged is None or not isinstance(staged.event, ImportStaged):
            raise click.BadParameter(f"Version {version} has not staged a payload.")
        body = ledger.payloads({staged.stream: staged.event.payload_sha256}).get(staged.stream)
        if body is None:
            with ledger.connection() as connection:
                why = why_missing(connection, staged.supplier, staged.stream)
            raise click.ClickException(f"The payload of version {version} {why}.")
        bodies.append(body)
    before, after = bodies
    for change in difference(before, after):
        if as_json:
            click.echo(_encoder.encode(change))
        else:
            click.echo(f"{change.kind:<8} {text_of(change.path)}: {change.before!r} → {change.after!r}")
