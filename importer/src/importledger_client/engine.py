"""Tables in DuckDB, which filters rows, joins them to accounts and orders them, on disk, in bounded memory."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from importledger_client.sources import Unreadable

Rows = Mapping[str, list[tuple[Any, ...]]]
"""Rows of an account by table. A row begins with the number of the account and the number of the row."""
_MEMORY = "512MB"
_WHOLE, _LEAST_SHARE = 200_000, 0.5
_AT_ONCE = 20_000
"""Rows that are fetched together, unless a single account has more."""
_FORM = (
    r"""header = false, auto_detect = false, delim = ',', quote = '"', escape = '"', nullstr = '', new_line = '\n'"""
)
_LONGEST_LINE = 2**25


class Join(NamedTuple):
    """Join of a child table to its parent table, by pairs of columns (parent's, child's)."""

    parent: str
    child: str
    on: tuple[tuple[str, str], ...]


class Link(NamedTuple):
    """Columns of two tables with equal values: the share of the table's values that the parent has, and the number of
    values.
    """

    table: str
    column: str
    parent: str
    parent_column: str
    share: float
    is_parent_unique: bool
    values: int


class Engine:
    """Tables by name, "" for the main table. Columns are named c0, c1, … and conversions d0, d1, …"""

    def __init__(self, folder: Path, tables: Iterable[str]) -> None:
        import duckdb  # imported here: importing takes a moment, which other verbs need not wait for

        self._folder = folder
        self._numbers = {table: number for number, table in enumerate(tables)}
        options: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": _MEMORY,
            "threads": 2,
            "temp_directory": str(folder),
            "max_temp_directory_size": "1TB",
        }
        self._db = duckdb.connect(str(folder / "rows.duckdb"), config=options)
        for setting in (
            "autoinstall_known_extensions = false",
            f"allowed_directories = [{_quoted(str(folder))}]",
            "enable_external_access = false",  # an expression of a mapping reads no other file and no address
            "lock_configuration = true",
        ):
            self._db.execute(f"SET {setting}")
        self._errors = duckdb.Error

    def close(self) -> None:
        self._db.close()

    def fill(self, table: str, columns: Mapping[str, str], rows: Iterator[Sequence[Any]]) -> None:
        """Store rows, each with its number before its cells. `columns` are the cells' names with their types."""
        path = self._folder / "rows.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
        names = {"row": "BIGINT", **columns}
        cells = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in names.items())
        texts = ", ".join(f"'{name}': 'VARCHAR'" for name in names)
        source = f"read_csv({_quoted(str(path))}, {_FORM}, max_line_size = {_LONGEST_LINE}, columns = {{{texts}}})"
        self._run(f"CREATE TABLE r{self._numbers[table]} AS SELECT {cells}, true AS kept FROM {source}")
        path.unlink()

    def links(self, columns: Mapping[str, Sequence[str]]) -> list[Link]:
        """Return the pairs of columns of different tables of which the second has at least half of the first's values.

        The values must be unique in one of the two columns. With many rows, the same sample of values is compared in
        all tables.
        """
        rows = sum(self.filled(table, ())[0] for table in columns)
        sample = 1 if rows <= _WHOLE else 16
        parts = " UNION ALL ".join(
            f"SELECT {self._numbers[table]} AS t, {place} AS c, hash(c{place}) AS h, count(*) AS n"
            f" FROM r{self._numbers[table]} WHERE c{place} IS NOT NULL AND h % {sample} = 0 GROUP BY h"
            for table, names in columns.items()
            for place in range(len(names))
        )
        self._run(f"CREATE TABLE hashes AS {parts}")
        self._run("CREATE TABLE sizes AS SELECT t, c, count(*) AS size, max(n) = 1 AS once FROM hashes GROUP BY t, c")
        found = self._run(
            "SELECT a.t, a.c, b.t, b.c, count(*) / any_value(p.size) AS share, any_value(q.once), any_value(p.size)"
            " FROM hashes a JOIN hashes b ON a.h = b.h AND a.t <> b.t JOIN sizes p ON p.t = a.t AND p.c = a.c"
            " JOIN sizes q ON q.t = b.t AND q.c = b.c WHERE p.once OR q.once GROUP BY ALL"
            f" HAVING share >= {_LEAST_SHARE} ORDER BY ALL"
        )
        tables = list(self._numbers)
        return [
            Link(tables[t], columns[tables[t]][c], tables[s], columns[tables[s]][d], *numbers)
            for t, c, s, d, *numbers in found
        ]

    def types(self, table: str, expressions: Sequence[str]) -> list[str]:
        """Return the types of expressions over a table. Raises Unreadable."""
        described = self._run(f"DESCRIBE SELECT {', '.join(expressions)} FROM r{self._numbers[table]}")
        return [str(row[1]) for row in described]

    def filter(self, table: str, condition: str) -> None:
        self._run(f"UPDATE r{self._numbers[table]} SET kept = false WHERE NOT coalesce({condition}, false)")

    def first(self, table: str, values: Sequence[str]) -> list[tuple[int, Any] | None]:
        """Return number and value of the first row in which a value is not NULL, for each value."""
        if not values:
            return []
        names = [f"x{place}" for place in range(len(values))]
        rows = ", ".join(["row", *(f"{value} AS {name}" for name, value in zip(names, values, strict=True))])
        parts = ", ".join(f"min(CASE WHEN {name} IS NOT NULL THEN row END), arg_min({name}, row)" for name in names)
        [found] = self._run(f"SELECT {parts} FROM (SELECT {rows} FROM r{self._numbers[table]} WHERE kept)")
        pairs = zip(found[::2], found[1::2], strict=True)
        return [None if number is None else (number, value) for number, value in pairs]

    def first_like(
        self, table: str, patterns: Sequence[tuple[str, str]], texts: Sequence[str]
    ) -> list[tuple[int, str] | None]:
        """Return number and cell of the first row whose whole cell matches, for each pair of a column and a pattern.

        The given texts do not match.
        """
        quoted = ", ".join(_quoted(text) for text in ("", *texts))
        matching = "CASE WHEN regexp_full_match({0}, {1}) AND {0} NOT IN ({2}) THEN {0} END"
        return self.first(table, [matching.format(column, _quoted(pattern), quoted) for column, pattern in patterns])

    def filled(self, table: str, columns: Iterable[str], *, clause: str = "") -> list[int]:
        """Return the number of rows, then the number of filled cells of each column.

        `columns` are the engine's names. `clause` is SQL after the table's name that selects rows, such as a join.
        """
        counts = ", ".join(["count(*)", *(f"count({column})" for column in columns)])
        return list(self._run(f"SELECT {counts} FROM r{self._numbers[table]} {clause}")[0])

    def join(self, keys: Mapping[str, str], joins: Sequence[Join]) -> None:
        """Find the rows of each account: by the table's key column, else by the joins, parents first.

        Rows that belong only to rows that were left out are also left out, and have negative account numbers.
        """
        first = "min(row) FILTER (WHERE kept)"
        self._run(
            f"CREATE TABLE accounts AS SELECT {keys['']} AS key, {first} AS first, row_number() OVER (ORDER BY {first}"
            " NULLS LAST) * CASE WHEN bool_or(kept) THEN 1 ELSE -1 END AS account FROM r0 WHERE key IS NOT NULL"
            f" GROUP BY {keys['']}"
        )
        for table, number in self._numbers.items():
            self._run(f"CREATE TABLE p{number} (account BIGINT, row BIGINT, kept BOOLEAN)")
            if column := keys[table]:
                self._run(
                    f"INSERT INTO p{number} SELECT account, row, kept AND account > 0 FROM r{number}"
                    f" JOIN accounts ON {column} = key"
                )
        for join in joins:
            parent, child = self._numbers[join.parent], self._numbers[join.child]
            on = " AND ".join(f"c.{theirs} = r.{ours}" for ours, theirs in join.on)
            self._run(
                f"INSERT INTO p{child} (SELECT account, c.row, p.kept AND c.kept FROM p{parent} p JOIN r{parent} r"
                f" ON r.row = p.row JOIN r{child} c ON {on} EXCEPT SELECT * FROM p{child})"
            )
        for number in self._numbers.values():
            self._run(
                f"CREATE TABLE o{number} AS (SELECT row FROM r{number} WHERE NOT kept UNION SELECT row FROM p{number}"
                f" WHERE NOT kept) EXCEPT SELECT row FROM p{number} WHERE kept"
            )
            self._run(f"DELETE FROM p{number} WHERE NOT kept")

    def nowhere(self, table: str, columns: Iterable[str]) -> tuple[list[int], list[int]]:
        """Return the numbers of the rows that are in no account, and their filled cells in the form of `filled`."""
        number = self._numbers[table]
        clause = f"ANTI JOIN (SELECT row FROM p{number} UNION ALL SELECT row FROM o{number}) USING (row)"
        rows = self._run(f"SELECT row FROM r{number} {clause} ORDER BY row")
        return [row for (row,) in rows], self.filled(table, columns, clause=clause)

    def left_out(self, table: str, columns: Iterable[str]) -> list[int]:
        """Return the number of rows that were left out, and the number of their filled cells in each column."""
        return self.filled(table, columns, clause=f"SEMI JOIN o{self._numbers[table]} USING (row)")

    def repeated(self, table: str) -> list[int]:
        """Return the numbers of the rows that are in several accounts."""
        rows = self._run(f"SELECT row FROM p{self._numbers[table]} GROUP BY row HAVING count(*) > 1 ORDER BY row")
        return [row for (row,) in rows]

    def order(self, table: str, values: Sequence[str]) -> None:
        """Compute values of the rows of all accounts, and order the rows by account and number."""
        number = self._numbers[table]
        names = ", ".join(f"{value} AS v{place}" for place, value in enumerate(values))
        self._run(
            f"CREATE TABLE f{number} AS SELECT account, row, {names} FROM p{number} JOIN r{number} USING (row)"
            f" ORDER BY account, row"
        )
        self._run(f"DROP TABLE r{number}")

    def values(self, table: str, place: int) -> list[tuple[Any, int, str]]:
        """Return the different values at a place of all rows, with the number of rows and an account's key for each."""
        return self._run(
            f"SELECT v{place} AS x, count(*), arg_min(key, account) FROM f{self._numbers[table]} JOIN accounts"
            " USING (account) WHERE x IS NOT NULL GROUP BY x ORDER BY count(*) DESC, x"
        )

    @property
    def size(self) -> int:
        """Number of accounts in the tables."""
        return int(self._run("SELECT count(*) FROM accounts WHERE account > 0")[0][0])

    def accounts(self) -> Iterator[tuple[str, int, Rows]]:
        """Yield each account: its key, the number of its first row, and its rows."""
        pairs = " UNION ALL ".join(f"SELECT account FROM p{number}" for number in self._numbers.values())
        part_of = f"SELECT account, sum(count(*)) OVER (ORDER BY account) // {_AT_ONCE} AS part"
        parts = self._run(
            f"SELECT min(account), max(account) FROM ({part_of} FROM ({pairs}) GROUP BY account)"
            " GROUP BY part ORDER BY part"
        )
        for part in parts:
            between = f"WHERE account BETWEEN {part[0]} AND {part[1]} ORDER BY account"
            found: dict[str, dict[int, list[tuple[Any, ...]]]] = {}
            for table, number in self._numbers.items():
                groups = found[table] = {}
                for row in self._run(f"SELECT * FROM f{number} {between}, row"):
                    groups.setdefault(row[0], []).append(row)
            for account, key, first in self._run(f"SELECT account, key, first FROM accounts {between}"):
                yield key, first, {table: groups.get(account, []) for table, groups in found.items()}

    def _run(self, sql: str) -> list[Any]:
        try:
            return self._db.execute(sql).fetchall()
        except self._errors as error:
            reason = str(error).partition("\n")[0]
            raise Unreadable("The mapping cannot be applied to the tables: {reason}", reason=reason) from None
        except RuntimeError as error:
            if str(error) != "Query interrupted":
                raise
            raise KeyboardInterrupt from None  # the engine's error for a signal


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
