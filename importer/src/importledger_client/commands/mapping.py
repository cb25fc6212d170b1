"""`importbook map`: propose and check a mapping from columns to accounts."""

import itertools
from pathlib import Path

import click
import msgspec

from importledger_client.commands import OK, SOMETHING_WRONG, common
from importledger_client.display import EVERY_S, Progress, counted, number
from importledger_client.language import _
from importledger_client.linking import links_of
from importledger_client.mapped_source import SHOWN_ACCOUNTS, MappedSource
from importledger_client.mapping import read_mapping
from importledger_client.proposing import PRESETS, Proposed, gaps, propose
from importledger_client.tables.delimited import Delimited
from importledger_client.tables.reading import Table, is_json
from importledger_client.tables.table import TableSource
from importledger_client.value_list import read_list, write_list

SAMPLE = 200
"""Rows that `init` reads."""


@click.group("map", epilog="Example: importbook map init kunden.csv > m.yaml")
def map_() -> None:
    """Propose and check a mapping from columns to accounts."""


@map_.command(epilog="Example: importbook map init kunden.csv --preset sap-is-u > m.yaml")
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path(exists=True, dir_okay=False))
@click.option("--preset", type=click.Choice(PRESETS), default="generic", show_default=True, help="Names of columns.")
def init(files: tuple[str, ...], preset: str) -> int:
    """Write a proposed mapping to standard output.

    It is made from the names of the columns, in German, English or those of a preset. The first file has the accounts;
    the others are further tables, joined by the columns whose values are equal.
    """
    for file in files:
        if is_json(file) and preset != "bo4e":
            raise common.Stop("{file} is no table: CSV, XLSX and Parquet need a mapping, NDJSON needs none.", file=file)
    doubts, tables = list[str](), dict[str, Proposed]()
    for file in files:
        table = Table([file], TableSource())
        rows = [row for __, row in itertools.islice(table.rows(), SAMPLE)]
        part = table.parts[0]
        source = {"delimiter": part.delimiter, "encoding": part.encoding} if isinstance(part, Delimited) else {}
        name = Path(file).name.partition(".")[0] if tables else ""
        if name in tables:
            raise common.Stop("{file}: the name {name} must belong to one file.", file=file, name=name)
        tables[name] = Proposed(name, file, table.columns, rows, source)
        doubts += [sentence for __, sentence in table.doubts]
    links = links_of({name: Table([table.path], TableSource()) for name, table in tables.items()}) if files[1:] else []
    for link in links:
        tables[link.table].link = link
    linked = [tables[link.table] for link in links]
    rest = [table for name, table in tables.items() if name and table.link is None]
    click.echo(propose([tables[""], *linked, *rest], preset, doubts), nl=False)
    return OK


@map_.command(epilog="Example: importbook map values m.yaml kunden.csv -o werte.csv")
@click.argument("mapping", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="M.yaml")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="New file for the list. [default: `values` of the mapping]"
)
def values(mapping: Path, file: str, output: Path | None) -> int:
    """Write the values of code columns, to be filled in.

    Every value of a column with a lookup table is a row: how many rows have it, its target so far, and an account as an
    example. Fill in the missing targets, and name the list in the mapping: `values: werte.csv`. The target - means no
    value. Exit code 1 while a target is missing.
    """
    plan = read_mapping(mapping)
    path = output or (Path(plan.values) if plan.values else None)
    if path is None:
        raise common.Stop("The list must have a name: pass -o, or name it in the mapping with `values: werte.csv`.")
    if path.suffix.lower().startswith(".xls"):
        raise common.Stop(
            "{file} is a workbook, but the list is written as CSV: pass -o {new}, and name that file in the mapping.",
            file=path,
            new=path.with_suffix(".csv").name,
        )
    known = read_list(path) if path.exists() else {}
    found = list(MappedSource([file], plan, mapping, None).code_values())
    missing = write_list(path, found, plan.tables | {name: plan.tables.get(name, {}) | known[name] for name in known})
    shown = counted(len(found), "value")
    sentence = _("{values} in {file} · without a target: {missing}", values=shown, file=path, missing=number(missing))
    common.print_line(common.out(), sentence)
    return SOMETHING_WRONG if missing else OK


@map_.command(epilog="Example: importbook map check m.yaml kunden.csv")
@click.argument("mapping", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="M.yaml")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--supplier", metavar="CODE", help="Supplier of all accounts. [default: the one of the mapping]")
def check(mapping: Path, file: str, supplier: str | None) -> int:
    """Show the first accounts of a mapping, and its open points.

    Prints each account with its rows. Exit code 1 while something is open.
    """
    console = common.out()
    plan = read_mapping(mapping)
    source = MappedSource([file], plan, mapping, supplier)
    accounts = 0
    without_number = 0
    with Progress(common.err(), first_after_s=EVERY_S) as progress:
        source.show = progress.show
        for line in source.lines():
            accounts += 1
            without_number += not line.content
            progress.show(
                _("made {accounts}", accounts=counted(accounts, "account")), accounts / (source.size or accounts)
            )
            if accounts <= SHOWN_ACCOUNTS and line.content:
                account = msgspec.json.format(line.content, indent=2).decode()
                common.print_line(console, *source.first_rows.get(line.number, ()), account)
    common.print_line(console, *source.written())
    unfit = source.mapped.unfit if source.mapped else {}
    open_ = [*source.open_points(), *(f"{path}: {sentence}" for path, sentence in gaps(plan))]
    open_ += [f"{_('column')} {column}: {value}" for column, value in sorted(unfit.items())]
    if without_number:
        rows = counted(without_number, "row")
        open_.append(_("{rows} must have a value in column {column}.", rows=rows, column=plan.key))
    if not accounts:
        open_.append(_("{file} must have at least one row below its header.", file=file))
    common.print_line(console, *open_, f"{counted(accounts, 'account')} · {_('open')}: {len(open_)}")
    if open_:
        return SOMETHING_WRONG
    words = [] if "import_supplier" in plan.account and not supplier else ["--supplier", supplier or "CODE"]
    common.next_step(console, "push", file, "--mapping", str(mapping), *words, "--mode", "validate")
    return OK
