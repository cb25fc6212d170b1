"""`importbook generate`: write a synthetic German book for rehearsals."""

import re
import sys
from fractions import Fraction

import click

from importledger_client.book import book
from importledger_client.commands import OK
from importledger_client.language import _

_SHARE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%?\Z")


def _share(context: click.Context, parameter: click.Parameter, value: str) -> Fraction:
    match = _SHARE.match(value)
    if match is None or (share := Fraction(match.group(1)) / 100) > 1:
        raise click.BadParameter(_("{value!r} must be a share between 0% and 100%.", value=value))
    return share


@click.command(epilog="Example: importbook generate --accounts 1000 --errors 2% > book.ndjson")
@click.option("--accounts", required=True, type=click.IntRange(1, 100_000_000), help="Number of accounts.")
@click.option(
    "--seed", default=1, show_default=True, type=click.IntRange(0), help="Seed; the same seed gives the same book."
)
@click.option(
    "--errors", default="0%", show_default=True, callback=_share, metavar="P%", help="Share of accounts with an error."
)
@click.option("--supplier", default="NORDWIND", show_default=True, metavar="CODE", help="Supplier of the accounts.")
def generate(accounts: int, seed: int, errors: Fraction, supplier: str) -> int:
    """Write a synthetic German book to standard output.

    The format is NDJSON. No person in it is real: telephone numbers are reserved for films, bank codes do not exist.
    """
    write = sys.stdout.buffer.write
    for entry in book(supplier, accounts, seed=seed, errors=errors):
        write(entry.body + b"\n")
    return OK
