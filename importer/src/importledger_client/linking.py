"""Propose joins of tables by columns with equal values."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from importledger_client.engine import Engine, Shared
from importledger_client.language import _
from importledger_client.mapping import named
from importledger_client.tables.reading import Table
from importledger_client.values import clean


class Link(NamedTuple):
    """A proposed join of a table to another table, by a column of each.

    The other table has the `share` of the column's values.
    """

    table: str
    column: str
    parent: str
    parent_column: str
    share: float
    is_parent_unique: bool

    @property
    def sentence(self) -> str:
        parent = named(self.parent, self.parent_column)
        columns = f"{self.table}.{self.column} = {parent}"
        return _("joined: {columns}, which has {share} of its values", columns=columns, share=f"{self.share:.0%}")


def links_of(tables: Mapping[str, Table]) -> list[Link]:
    """Return the join of each further table, parents first. A table without equal values has no join."""
    with tempfile.TemporaryDirectory(prefix="importbook-") as folder, closing(Engine(Path(folder), tables)) as engine:
        for name, table in tables.items():
            kinds = {f"c{place}": "VARCHAR" for place in range(len(table.columns))}
            engine.fill(name, kinds, _rows(table))
        shared = engine.shared({name: len(table.columns) for name, table in tables.items()})
    links, joined = list[Link](), {""}
    while candidates := [pair for pair in shared if pair.child not in joined and pair.parent in joined]:
        best = max(candidates, key=lambda pair: _rank(tables, pair))
        joined.add(best.child)
        column, parent_column = (tables[best.child].columns[best.place], tables[best.parent].columns[best.parent_place])
        links.append(Link(best.child, column, best.parent, parent_column, best.share, best.is_parent_unique))
    return links


def _rank(tables: Mapping[str, Table], pair: Shared) -> Any:
    """Return the rank of a join: greatest share of values first, then equal names, then most values."""
    names = tables[pair.child].columns[pair.place], tables[pair.parent].columns[pair.parent_place]
    return round(pair.share, 2), names[0].lower() == names[1].lower(), pair.values


def _rows(table: Table) -> Iterator[list[Any]]:
    for number, row in table.whole_rows():
        yield [number, *(clean(cell, ()) for cell in row)]
