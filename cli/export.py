"""The verb `export`, which writes the history of a supplier to a file."""

from datetime import timedelta
from pathlib import Path

import click

from cli.history import MomentParam, position_of
from cli.known import require_supplier
from cli.language import _, counted, translated
from cli.operator import open_ledger
from cli.output import NewFile, json_option, print_result
from eventstore.log.payloads import detached_payloads
from eventstore.operations.export import export as write_export
from eventstore.operations.export import header_of
from projections.queries.history import AsOf


@click.command("export")
@click.option("--supplier", "supplier_code", required=True, help="Supplier of the history.")
@click.option(
    "--from",
    "first",
    type=MomentParam(is_end=False),
    help="First position, time or day [default: all]",
)
@click.option("--to", "last", type=MomentParam(), help="Last position, time or day [default: all]")
@click.option("--payloads", is_flag=True, help="Payloads too: personal data.")
@click.option("-o", "--output", required=True, type=NewFile(), help="Output file FILE.ndjson.zst, which must be new.")
@json_option
def export_history(
    supplier_code: str, first: AsOf | None, last: AsOf | None, payloads: bool, output: Path, as_json: bool
) -> None:
    """Export the history of a supplier to a file.

    `replay` reads the file.
    """
    first, last = first or AsOf(), last or AsOf()
    header = header_of(supplier_code, _text(first), _text(last))
    with open_ledger() as ledger, ledger.connection() as connection:
        require_supplier(connection, supplier_code)
        bounds = {"first": _first(first), "last": position_of(last)}
        connection.execute("SET statement_timeout = 0")
        end = write_export(connection, output, header, bounds, payloads=payloads)
        more, elsewhere = detached_payloads(connection, supplier_code, end.detached)
    result = {"file": str(output), "supplier": supplier_code, "events": end.events, "payloads": end.payloads}
    sentence = _(
        "{output} has {events} and {payloads} of {code}.", output=output, code=supplier_code,
        events=counted(end.events, "event"), payloads=counted(end.payloads, "payload"),
    )  # fmt: skip
    print_result(sentence + translated(more), result | elsewhere, as_json=as_json)


def _first(moment: AsOf) -> int | None:
    """Return the first position of a span that begins at this moment; None if it begins with the log."""
    if moment.time is None:
        return moment.position
    before = position_of(AsOf(time=moment.time - timedelta(microseconds=1)))
    return None if before is None else before + 1


def _text(moment: AsOf) -> str | None:
    if moment.position is not None:
        return str(moment.position)
    return moment.time.isoformat() if moment.time else None
