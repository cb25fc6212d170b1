"""The verb `status`: the status of an import, counts of a supplier's imports, and reasons of refused requests."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import click
import msgspec

from cli.addresses import answer_of
from cli.history import as_of_option, position_of
from cli.known import require_import, require_supplier
from cli.language import _
from cli.operator import open_ledger
from cli.output import json_option, print_result, text_of
from projections.queries.history import AsOf, read_statuses, status_as_of
from projections.queries.missing_documents import with_missing_documents
from projections.views.error_statistics import SELECT_REFUSALS


@click.command()
@click.argument("supplier_code", metavar="SUPPLIER")
@click.argument("external", required=False)
@as_of_option
@click.option("--list", "as_list", is_flag=True, help="All imports with their status, instead of counts.")
@click.option("--refusals", "of_refusals", is_flag=True, help="Reasons of refused requests, most frequent first.")
@json_option
def status(
    supplier_code: str, external: str | None, as_of: AsOf | None, as_list: bool, of_refusals: bool, as_json: bool
) -> None:
    """Show the status of one import, or counts by status.

    EXTERNAL is the external account number at SUPPLIER. Without EXTERNAL, shows the number of SUPPLIER's imports with
    each status.
    """
    if of_refusals:
        if external is not None or as_of is not None or as_list:
            raise click.UsageError(_("--refusals must be used with SUPPLIER only."))
        _print_refusals(supplier_code, as_json=as_json)
        return
    with open_ledger() as ledger, ledger.connection() as connection:
        if external is not None:
            require_import(connection, supplier_code, external)
            upto = position_of(as_of)
            record = answer_of(status_as_of, supplier_code, external, upto)
            if record is None:
                raise click.ClickException(
                    _("There was no import of {external} for {code} then.", external=external, code=supplier_code)
                )
            record = with_missing_documents(ledger, supplier_code, {external: record})[external]
            shown = msgspec.to_builtins(record, enc_hook=str)  # a sentence in two languages, in English
            print_result(_lines(shown), shown, as_json=as_json)
            return
        require_supplier(connection, supplier_code)
        upto = position_of(as_of)
        statuses = read_statuses(connection, supplier_code, upto)
    result = statuses if as_list else dict(sorted(Counter(statuses.values()).items()))
    print_result(_lines(result), result, as_json=as_json)


def _print_refusals(supplier_code: str, *, as_json: bool) -> None:
    with open_ledger() as ledger, ledger.connection() as connection:
        require_supplier(connection, supplier_code)
        for row in connection.execute(SELECT_REFUSALS, (supplier_code,)):
            print_result("{number:>8}  {code}  {path}".format(**row), row, as_json=as_json)


def _lines(result: Mapping[str, Any]) -> str:
    """Return a line for each value. Values of an inner object are named `outer.inner`."""
    flat = dict[str, Any]()
    for name, value in result.items():
        flat |= {f"{name}.{inner}": text for inner, text in value.items()} if isinstance(value, dict) else {name: value}
    return "\n".join(f"{text_of(name):<20} {text_of(value)}" for name, value in flat.items())
