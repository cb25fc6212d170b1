"""`importbook map`: propose and check how the columns of a table become accounts."""

import itertools
from pathlib import Path

import click
import msgspec

from importledger_client.commands.common import OK, SOME_REFUSED, Stop, next_step, out, say
from importledger_client.mapping import MappedSource, read_mapping
from importledger_client.proposing import columns_nowhere, gaps, proposed
from importledger_client.tables import columns_of, dialect_of, is_json, is_table, rows_of

FIRST = 2
SAMPLE = 200


@click.group("map")
def map_() -> None:
    """How the columns of a table become accounts."""


@map_.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
def init(file: str) -> int:
    """Write a proposed mapping to standard output, from the names of the columns."""
    if is_json(file):
        raise Stop(f"{file} is no table: CSV, XLSX and Parquet need a mapping, NDJSON needs none.")
    rows = [row for _, row in itertools.islice(rows_of(file), SAMPLE)]
    source = {}
    if is_table(file) and not file.lower().endswith((".xlsx", ".parquet")):
        dialect = dialect_of(file)
        source = {"delimiter": dialect.delimiter, "encoding": dialect.encoding}
    click.echo(proposed(columns_of(file), rows, source), nl=False)
    return OK


@map_.command()
@click.argument("mapping", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="M.yaml")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--supplier", help="The supplier of all accounts.")
def check(mapping: Path, file: str, supplier: str | None) -> int:
    """Show the first accounts made from a mapping, and what it leaves open. Exit code 1 while anything is open."""
    console = out()
    plan = read_mapping(mapping)
    source = MappedSource(file, plan, mapping, supplier)
    accounts = 0
    for line in source.lines():
        accounts += 1
        if accounts <= FIRST and line.content:
            say(console, f"line {line.number}:")
            say(console, msgspec.json.format(line.content, indent=2).decode())
    open_ = gaps(plan, columns_nowhere(plan, file))
    for gap in open_:
        say(console, f"column {gap.name}: {gap.sentence}" if gap.is_column else f"{gap.name}: {gap.sentence}")
    for column, value in sorted(source.mapped.unfit.items()):
        say(console, f"column {column}: {value!r} is not written as the mapping says.")
    left_out = list(source.left_out())
    for sentence in left_out:
        say(console, sentence)
    is_open = len(open_) + len(source.mapped.unfit) + len(left_out)
    say(console, f"{accounts:,} accounts · open: {is_open}")
    if is_open:
        return SOME_REFUSED
    words = [] if "import_supplier" in plan.account and not supplier else ["--supplier", supplier or "CODE"]
    next_step(console, "push", file, "--mapping", str(mapping), *words, "--mode", "validate")
    return OK
