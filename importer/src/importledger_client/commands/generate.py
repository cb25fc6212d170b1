"""`importbook generate`: a synthetic German book to rehearse with."""

import re
import sys
from fractions import Fraction

import click

from importledger_client.book import book
from importledger_client.commands.exit_codes import OK

_SHARE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%?\Z")


class Share(click.ParamType[Fraction]):
    """A share in percent: 2% or 2."""

    name = "P%"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Fraction:
        if isinstance(value, Fraction):
            return value
        match = _SHARE.match(str(value))
        if match is None or (share := Fraction(match.group(1)) / 100) > 1:
            self.fail(f"{value!r} is not a share between 0% and 100%.", param, ctx)
        return share


@click.command()
@click.option("--accounts", required=True, type=click.IntRange(1, 100_000_000), help="How many.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="The same seed, the same book.")
@click.option("--errors", default="0%", show_default=True, type=Share(), help="The share that is to be refused.")
@click.option("--supplier", default="NORDWIND", show_default=True, help="The supplier that the accounts name.")
def generate(accounts: int, seed: int, errors: Fraction, supplier: str) -> int:
    """Write a synthetic German book to standard output, as NDJSON.

    Nobody is in it: telephone numbers are those kept free for films, bank codes do not exist.
    """
    write = sys.stdout.buffer.write
    for entry in book(supplier, accounts, seed=seed, errors=errors):
        write(entry.body + b"\n")
    return OK
