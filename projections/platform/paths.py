"""Paths of the contract with the columns that store them, and the values of single accounts by path.

`importbook` reads values of a source in the same form, so that both sides can be compared field by field. Values are
read from the platform's rows, independently of the code that writes the rows.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import inspect
from psycopg import Connection

from eventstore.log.rows import rows_of
from projections.platform.json_columns import without_null
from projections.platform.tables import ACCOUNT_TABLE, Table, sql_type_of, table_columns
from schemas.account import Account

MODULUS = 2**64
"""Modulus of sums of digests."""


class PathColumn(msgspec.Struct, frozen=True):
    """Path on the wire, and the column that stores it. For the rows of an array of objects, `expression` is "".

    `source` is the name of its `Source`, `stored` the column as shown to people, `expression` its SQL.
    """

    path: str
    source: str
    stored: str
    sql_type: str
    expression: str = ""
    default: Any = None


class Source(msgspec.Struct, frozen=True):
    """SQL that selects the rows `t` of some accounts' objects, and the ordinals of each object and its parent."""

    name: str
    rows: str
    ordinal: str
    parent: str


SOURCES: dict[str, Source] = {}
_ITEMS = 'SELECT account_number, {own}, "{column}" FROM platform."{table}" WHERE account_number = ANY(%(numbers)s)'
_ITEMS_BELOW = "SELECT account_number, ordinal, v -> '{name}' FROM {rows} AS o"
_FOLDED_ROWS = """(
    SELECT account_number, parent, v, row_number() OVER (PARTITION BY account_number ORDER BY parent, n) AS ordinal
    FROM ({above}) AS p (account_number, parent, items), {each}(items) WITH ORDINALITY AS item (v, n)
)"""


def _table_paths(table: Table, node: inspect.StructType, above: str) -> Iterator[PathColumn]:
    """Yield the paths of a table's columns and of its children; add their sources to SOURCES."""
    types, stored = dict(table_columns(table)), f"platform.{table.name}"
    children = {child.field: child for child in table.children}
    ordinal, parent = "t.ordinal" if table.field else "0", f"t.{table.parent}_ordinal" if table.parent else "0"
    SOURCES[table.name] = Source(table.name, f'platform."{table.name}"', ordinal, parent)
    if above:
        yield PathColumn(above, table.name, stored, "")
    for field in node.fields:
        path = f"{above}.{field.name}" if above else field.name
        kind = without_null(field.type)
        column, sql_type = f't."{field.name}"', types.get(field.name, "")
        if field.name in children:
            yield from _table_paths(children[field.name], _items(kind), path)
        elif isinstance(kind, inspect.VarTupleType) and isinstance(kind.item_type, inspect.StructType):
            own = "ordinal" if table.field else "0"
            items_query = _ITEMS.format(own=own, column=field.name, table=table.name)
            at = f"{stored}.{field.name}"
            yield from _list_paths(path, kind.item_type, path, at, items_query, sql_type)
        elif isinstance(kind, inspect.StructType):
            for inner in kind.fields:
                own = f"{field.name}_{inner.name}"
                if own in types:
                    value, at, inner_type = f't."{own}"', f"{stored}.{own}", types[own]
                else:
                    inner_type = sql_type_of(inner.name, without_null(inner.type))
                    value, at = _member(column, inner.name, inner_type), f"{stored}.{field.name}.{inner.name}"
                yield PathColumn(f"{path}.{inner.name}", table.name, at, inner_type, value, inner.default)
        elif path != "import_supplier":
            yield PathColumn(path, table.name, f"{stored}.{field.name}", sql_type, column, field.default)


def _list_paths(
    name: str, node: inspect.StructType, path: str, stored: str, above: str, column_type: str
) -> Iterator[PathColumn]:
    """Yield the paths of a list that is a column, and of the lists in its objects; add their sources to SOURCES."""
    rows = _FOLDED_ROWS.format(above=above, each=f"{column_type}_array_elements")
    SOURCES[name] = Source(name, rows, "t.ordinal", "t.parent")
    yield PathColumn(path, name, stored, "")
    for field in node.fields:
        kind, at = without_null(field.type), f"{stored}.{field.name}"
        if isinstance(kind, inspect.VarTupleType) and isinstance(kind.item_type, inspect.StructType):
            below, inner_path = _ITEMS_BELOW.format(name=field.name, rows=rows), f"{path}.{field.name}"
            yield from _list_paths(inner_path, kind.item_type, inner_path, at, below, column_type)
        else:
            sql_type = sql_type_of(field.name, kind)
            value = _member("t.v", field.name, sql_type)
            yield PathColumn(f"{path}.{field.name}", name, at, sql_type, value, field.default)


def _member(value: str, name: str, sql_type: str) -> str:
    """Return the expression of a member of a JSON object in its SQL type; NULL if it is missing."""
    match sql_type:
        case "json":
            return f"({value} -> '{name}')"
        case "text":
            return f"({value} ->> '{name}')"
        case "text[]":
            raise NotImplementedError(f"texts in {name} of a JSON column")
        case _:
            return f"nullif({value} ->> '{name}', '')::{sql_type}"


def _items(kind: inspect.Type) -> inspect.StructType:
    assert isinstance(kind, inspect.VarTupleType)
    assert isinstance(kind.item_type, inspect.StructType)
    return kind.item_type


def _account_node() -> inspect.StructType:
    node = inspect.type_info(Account)
    assert isinstance(node, inspect.StructType)
    return node


PATH_COLUMNS: tuple[PathColumn, ...] = tuple(_table_paths(ACCOUNT_TABLE, _account_node(), ""))


class Value(msgspec.Struct, frozen=True):
    """A value: the ordinals of its row and of the row's parent, and its text, which is the same for equal values."""

    ordinal: int
    parent: int
    text: str


Values = dict[str, list[Value]]
"""Filled values of an account by path. A row is a value of its list, with an empty text."""


def account_values(connection: Connection[Any], account_number: str) -> Values:
    """Return the values of an account."""
    values: Values = {}
    for source, statement in _STATEMENTS.items():
        paths = [column.path for column in PATH_COLUMNS if column.source == source]
        for ordinal, parent, texts in rows_of(connection, statement, numbers=[account_number]):
            for path, text in zip(paths, texts, strict=True):
                if text is not None:
                    values.setdefault(path, []).append(Value(ordinal, parent, text))
    return values


def path_digest(external: str, values: Sequence[Value]) -> str:
    """Return the digest of the values of a path of an account, which does not depend on their order."""
    total = 0
    for value in values:
        text = f"{external}\x1f{value.ordinal}\x1f{value.parent}\x1f{value.text}"
        total += int.from_bytes(sha256(text.encode()).digest()[:8], "big")
    return f"{total % MODULUS:016x}"


_VALUES = {
    "text": "{c}",
    "numeric": "trim_scale({c})::text",
    "bigint": "{c}::text",
    "boolean": "CASE WHEN {c} THEN 'true' ELSE 'false' END",
    "date": "to_char({c}, 'YYYY-MM-DD')",
    "timestamptz": "(extract(epoch FROM {c}) * 1000000)::bigint::text",
    "text[]": "array_to_string({c}, E'\\x1f')",
    "json": "{c}::text",
}
"""Templates that write a value as text for its digest, by the column's type."""


def _filled(path_column: PathColumn) -> str:
    """Return the SQL condition that the column is neither empty nor the field's default."""
    column = path_column.expression
    match path_column.sql_type:
        case "":
            return "true"
        case "text":
            default = path_column.default if isinstance(path_column.default, str) else ""
            return f"{column} <> ''" + (f" AND {column} <> '{default}'" if default.isidentifier() else "")
        case "text[]":
            return f"cardinality({column}) > 0"
        case "json":
            return f"""btrim({column}::text) NOT IN ('null', '""', '[]', '{{}}')"""
        case "boolean" if isinstance(path_column.default, bool):
            return f"{column} <> {str(path_column.default).lower()}"
        case "bigint" if isinstance(path_column.default, int):
            return f"{column} <> {int(path_column.default)}"
        case _:
            return f"{column} IS NOT NULL"


def _statement(source: Source) -> bytes:
    """Return the query for the rows of a source: ordinals, and the text of each of its paths, NULL if not filled."""
    texts = []
    for path_column in (path_column for path_column in PATH_COLUMNS if path_column.source == source.name):
        value = _VALUES[path_column.sql_type].format(c=path_column.expression) if path_column.expression else "''"
        texts.append(f"CASE WHEN {_filled(path_column)} THEN {value} END")
    return f"""
SELECT ({source.ordinal})::integer, ({source.parent})::integer, ARRAY[{", ".join(texts)}]::text[]
FROM {source.rows} AS t
WHERE account_number = ANY(%(numbers)s)
""".encode()  # noqa: S608 - names of fields in schemas/


_STATEMENTS = {source.name: _statement(source) for source in SOURCES.values()}
