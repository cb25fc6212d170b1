"""`importbook fix`: write the refused accounts of a run with the corrections that the service has suggested."""

import csv
import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import msgspec

from importledger_client.answers import Suggestion
from importledger_client.commands import NOTHING_DONE, OK, common
from importledger_client.display import counted
from importledger_client.failures import Failed, neutral, private_file, read_failures, shown, value_at
from importledger_client.language import _
from importledger_client.protocol import encode
from importledger_client.unfinished import UNFINISHED, private_folder

NAMES = ("phone", "iban", "postcode", "malo", "melo", "date", "blanks")
"""Kinds of corrections, as the service names them."""
_decode = msgspec.json.Decoder(float_hook=Decimal).decode
COLUMNS = ("number", "path", "correction", "before", "after", "sentence")


def _only(context: click.Context, parameter: click.Parameter, value: str | None) -> frozenset[str]:
    names = frozenset((value or ",".join(NAMES)).replace(" ", "").split(","))
    if unknown := sorted(names - {*NAMES}):
        raise click.BadParameter(_("{name} must be among {names}.", name=unknown[0], names=", ".join(NAMES)))
    return names


@click.command(epilog="Example: importbook fix reh-1 --only phone,iban")
@click.argument("run", callback=common.run_name)
@click.option("--only", callback=_only, metavar="KINDS", help="Kinds of corrections, with commas. [default: all]")
def fix(run: str, only: frozenset[str]) -> int:
    """Write refused accounts with the suggested corrections.

    Reads RUN.failures.ndjson. Writes the corrected accounts to RUN.fixed.ndjson, and each change to RUN.fixed.csv.
    Sends nothing. KINDS are phone, iban, postcode, malo, melo, date and blanks. The service has tried each correction:
    it solves its problem and makes no other.
    """
    console, folder = common.out(), Path.cwd()
    book, table = folder / f"{run}.fixed.ndjson", folder / f"{run}.fixed.csv"
    accounts = changes = clean = 0
    with private_folder(UNFINISHED, folder) as unfinished:
        parts = [unfinished / path.name for path in (book, table)]
        with (
            private_file(parts[0]) as lines,
            io.TextIOWrapper(private_file(parts[1]), encoding="utf-8", newline="") as rows,
        ):
            writer = csv.writer(rows)
            writer.writerow(COLUMNS)
            for failed in read_failures(run, folder):
                account, made = _corrected(failed, only)
                if not made:
                    continue
                accounts, changes = accounts + 1, changes + len(made)
                clean += len(made) == len(failed.errors)
                lines.write(encode(account) + b"\n")
                number = shown(value_at(account, "external_account_number"))
                for attr, found in made:
                    cells = (number, attr, found.name, shown(found.before), found.value, found.sentence)
                    writer.writerow([neutral(cell) for cell in cells])
        for part, path in zip(parts if accounts else (), (book, table), strict=False):
            part.replace(path)
    if not accounts:
        sentence = _("run {run}: no refused account has a suggested correction of this kind.", run=run)
        common.print_line(console, sentence)
        return NOTHING_DONE
    sentence = _(
        "{accounts} with {corrections}, see {file}.",
        accounts=counted(accounts, "account"),
        corrections=counted(changes, "correction"),
        file=table.name,
    )
    common.print_line(console, f"{book.name}: {sentence}")
    solved = counted(clean, "account has", "accounts have")
    common.print_line(console, _("{accounts} no other problem. Nothing was sent.", accounts=solved))
    return OK


def _corrected(failed: Failed, only: frozenset[str]) -> tuple[Any, list[tuple[str, Suggestion]]]:
    """Return the account with the corrections of these kinds, and these with their paths.

    A value that somebody has changed or removed in the file stays as it is.
    """
    account, made = _decode(failed.payload), []
    for error in failed.errors:
        found = error.suggestion
        if isinstance(found, Suggestion) and found.name in only and value_at(account, error.attr) == found.before:
            _replace(account, error.attr, found.value)
            made.append((error.attr, found))
    return account, made


def _replace(account: Any, path: str, value: str) -> None:
    """Replace the value at a path that an account has."""
    *above, last = path.split(".")
    parent = value_at(account, ".".join(above)) if above else account.get("payload", account)
    parent[int(last) if isinstance(parent, list) else last] = value
