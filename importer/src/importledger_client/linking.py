"""Propose joins of tables by columns with equal values."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from importledger_client.engine import Engine, Link
from importledger_client.tables.reading import Table
from importledger_client.unfinished import private_folder
from importledger_client.values import clean


def links_of(tables: Mapping[str, Table]) -> list[Link]:
    """Return the join of each further table, parents first. A table without equal values has no join."""
    with private_folder("importbook-") as folder, closing(Engine(folder, tables)) as engine:
        for name, table in tables.items():
            kinds = {f"c{place}": "VARCHAR" for place in range(len(table.columns))}
            engine.fill(name, kinds, _rows(table))
        possible = engine.links({name: table.columns for name, table in tables.items()})
    links, joined = list[Link](), {""}
    while candidates := [link for link in possible if link.table not in joined and link.parent in joined]:
        links.append(max(candidates, key=_rank))
        joined.add(links[-1].table)
    return links


def _rank(link: Link) -> Any:
    """Return the rank of a join: greatest share of values first, then equal names, then most values."""
    return round(link.share, 2), link.column.lower() == link.parent_column.lower(), link.values


def _rows(table: Table) -> Iterator[list[Any]]:
    for number, row in table.whole_rows():
        yield [number, *(clean(cell, ()) for cell in row)]
