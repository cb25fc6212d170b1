"""The files that a verb reads: lines of NDJSON, or tables with a mapping."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from importledger_client.commands.common import Stop, command
from importledger_client.mapped_source import MappedSource
from importledger_client.mapping import read_mapping
from importledger_client.sources import Source
from importledger_client.tables.reading import is_table

F = TypeVar("F", bound=Callable[..., Any])

mapping_option = click.option(
    "--mapping",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="M.yaml",
    help="How the columns of CSV, XLSX or Parquet files become accounts.",
)


def sources_of(
    files: Sequence[str], mapping: Path | None, supplier: str | None, *, is_strict: bool = False
) -> list[Source]:
    """Raises Stop for a table without a mapping, Unreadable for what cannot be read.

    `is_strict` lets a mapping that leaves something open give no account.
    """
    if mapping is not None:
        return [MappedSource(files, read_mapping(mapping), mapping, supplier, is_strict=is_strict)]
    for file in files:
        if is_table(file):
            raise Stop(f"{file} is a table: it needs --mapping. Propose one with: {command('map', 'init', file)}")
    return [Source(file) for file in files]
