"""Totals of a run's accounts, computed from the rows of the platform's tables instead of payloads.

Each path of the contract has the number of its values, and a digest of all its values with their positions. A source
with totals of the same kind can be compared path by path.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any, TypeVar

import msgspec
from msgspec import inspect
from psycopg import Connection

from eventstore.log.rows import rows_of
from projections.platform.json_columns import without_null
from projections.platform.tables import ACCOUNT_TABLE, Table, sql_type_of, table_columns
from schemas.account import Account
from schemas.reading.problems import MAX_PROBLEMS, truncated
from schemas.reading.work import MAX_WALK_S, Work
from schemas.sentence import Sentence

MODULUS = 2**64
"""Modulus of sums of digests."""
EXACT = Context(prec=200)
"""Context of sums. The default one would round them to 28 digits."""

_COUNTED = {
    "customers": "customer",
    "supply_addresses": "supply_address",
    "supply_points": "supply_point",
    "meters": "meter",
    "registers": "register",
    "readings": "reading",
    "agreements": "agreement",
    "ledgers": "ledger",
    "transactions": "transaction",
    "documents": "statement",
}
"""Sources that are counted, by the name of the count."""
SUMS = {
    "transfer_balances": "transfer_balance",
    "balances": "ledgers.ledger_balance",
    "transactions": "ledgers.current_statement_transactions.amount",
    "readings": "supply_addresses.supply_points.melos.meters.registers.readings.value",
}
"""Paths whose values are summed, by the name of the sum."""


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
            name, at = _TABLE_OF_PATH.get(path, path), f"{stored}.{field.name}"
            yield from _list_paths(name, kind.item_type, path, at, items_query, sql_type)
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


_TRANSACTIONS = "ledgers.current_statement_transactions"
_TABLE_OF_PATH = {_TRANSACTIONS: "transaction"}
"""Names of lists whose count has another name than their path."""
PATH_COLUMNS: tuple[PathColumn, ...] = tuple(_table_paths(ACCOUNT_TABLE, _account_node(), ""))


class LedgerTotal(msgspec.Struct, frozen=True):
    """Totals of the ledgers of one code."""

    ledgers: int = 0
    balances: int = 0
    balance_sum: Decimal = Decimal(0)
    transactions: int = 0
    transaction_sum: Decimal = Decimal(0)

    def merge(self, added: "LedgerTotal") -> "LedgerTotal":
        return LedgerTotal(
            self.ledgers + added.ledgers,
            self.balances + added.balances,
            EXACT.add(self.balance_sum, added.balance_sum),
            self.transactions + added.transactions,
            EXACT.add(self.transaction_sum, added.transaction_sum),
        )

    def record(self) -> dict[str, Any]:
        return {
            name: decimal_text(value) if isinstance(value, Decimal) else value
            for name, value in msgspec.structs.asdict(self).items()
        }


class PathTotal(msgspec.Struct, frozen=True, array_like=True):
    """Number of values of a path, and the sum of their digests."""

    count: int = 0
    digest: int = 0

    def merge(self, added: "PathTotal") -> "PathTotal":
        return PathTotal(self.count + added.count, (self.digest + added.digest) % MODULUS)


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of some accounts. They do not depend on the order and size of the portions that are merged."""

    accounts: int = 0
    erased: int = 0
    paths: dict[str, PathTotal] = {}
    sums: dict[str, Decimal] = {}
    """Sums by name. A sum without any value is missing."""
    ledgers: dict[str, LedgerTotal] = {}
    """By ledger code."""

    def merge(self, added: "Totals") -> "Totals":
        """Return the sum of both."""
        return Totals(
            accounts=self.accounts + added.accounts,
            erased=self.erased + added.erased,
            paths=_merged(self.paths, added.paths, PathTotal.merge),
            sums=_merged(self.sums, added.sums, EXACT.add),
            ledgers=_merged(self.ledgers, added.ledgers, LedgerTotal.merge),
        )

    def record(self) -> dict[str, Any]:
        """Return the totals as JSON, with counts as integers and sums as text."""
        nothing = PathTotal()
        counts = {name: self.paths.get(_PATH_OF_SOURCE[source], nothing).count for name, source in _COUNTED.items()}
        return {
            "accounts": self.accounts,
            **counts,
            "balances": self.paths.get(SUMS["balances"], nothing).count,
            "sums": {name: decimal_text(self.sums.get(name)) for name in SUMS},
            "by_ledger": {code: ledger.record() for code, ledger in sorted(self.ledgers.items())},
            "paths": {
                path_column.path: {"count": total.count, "digest": f"{total.digest:016x}", "stored": path_column.stored}
                for path_column in sorted(PATH_COLUMNS, key=lambda path_column: path_column.path)
                for total in [self.paths.get(path_column.path, nothing)]
                if total.count
            },
            "erased": self.erased,
        }


T = TypeVar("T")


def _merged(first: Mapping[str, T], added: Mapping[str, T], both: Callable[[T, T], T]) -> dict[str, T]:
    return {**first, **{name: both(first[name], value) if name in first else value for name, value in added.items()}}


_PATH_OF_SOURCE = {path_column.source: path_column.path for path_column in PATH_COLUMNS if not path_column.expression}


def decimal_text(value: Decimal | None) -> str:
    """Return the number without exponent, in its scale; "0" for None."""
    return "0" if value is None else format(value, "f")


def unequal_totals(
    manifest: Mapping[str, Any], totals: Mapping[str, Any], *, drops_unknown: bool
) -> Iterator[tuple[tuple[str, ...], Sentence]]:
    """Yield (steps of the path, sentence) for each difference between a source and the platform.

    A path of the source that the platform lacks differs, unless it is no field of the contract and the supplier's
    setting drops such fields. Only the first sentences contain values, up to the limit of an answer. Raises
    TooMuchWork.
    """
    work, number = Work(MAX_WALK_S), 0
    for steps, source, platform in _compared(manifest, totals, drops_unknown):
        work.check_time()
        if source != platform:
            number += 1
            yield steps, _differ(_text_of(source), _text_of(platform)) if number <= MAX_PROBLEMS else _ALSO
    for name, sentence in UNUSED_CONTENT.items():
        if isinstance(unused := manifest.get(name), list):
            for number in range(len(unused)):
                yield (name, str(number)), sentence


def _compared(
    manifest: Mapping[str, Any], totals: Mapping[str, Any], drops_unknown: bool
) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield (steps of the path, value of the source, value of the platform)."""
    for name in ("accounts", *_COUNTED, "balances"):
        yield (name,), manifest.get(name), totals[name]
    for name in SUMS:
        yield ("sums", name), _dict(manifest, "sums").get(name), totals["sums"][name]
    ledgers, stored = _dict(manifest, "by_ledger"), totals["by_ledger"]
    for code in sorted({*ledgers, *stored}):
        for name in _LEDGER_NAMES:
            yield ("by_ledger", code, name), _dict(ledgers, code).get(name), stored.get(code, {}).get(name)
    paths, stored_paths = _dict(manifest, "paths"), totals["paths"]
    for path in sorted({*paths, *stored_paths}):
        if path not in stored_paths and path not in CONTRACT and drops_unknown:
            continue
        for name in ("count", "digest"):
            source, platform = _dict(paths, path).get(name), stored_paths.get(path, {}).get(name)
            if source != platform or name == "digest":
                yield ("paths", *path.split(".")), source, platform
                break


_LEDGER_NAMES = LedgerTotal.__struct_fields__
UNUSED_CONTENT = {
    "columns_nowhere": Sentence(
        "A column of the source is in no account, and its mapping does not ignore it.",
        "Eine Spalte des Altsystems steht in keinem Konto, und die Zuordnung lässt sie nicht ausdrücklich weg.",
    ),
    "values_nowhere": Sentence(
        "Rows of one account differ in a column of which it has one value.",
        "Zeilen eines Kontos unterscheiden sich in einer Spalte, von der es nur einen Wert hat.",
    ),
    "rows_nowhere": Sentence(
        "Rows of a table of the source belong to no account.",
        "Zeilen einer Tabelle des Altsystems gehören zu keinem Konto.",
    ),
}
"""Members of a manifest that list content of the source that is in no account, with their sentences."""
COMMON = ("import_supplier", "accounts", *_COUNTED, "balances", "sums", "by_ledger", "paths")
"""Members that manifests and totals have in common."""
CONTRACT = frozenset(path_column.path for path_column in PATH_COLUMNS)


def _differ(source: str, platform: str) -> Sentence:
    return Sentence(
        "Source and platform must have the same value: {source} in the source, {platform} in the platform.",
        "Altsystem und Plattform müssen denselben Wert haben: {source} im Altsystem, {platform} in der Plattform.",
        source=source,
        platform=platform,
    )


_ALSO = Sentence("Source and platform differ here as well.", "Altsystem und Plattform weichen auch hier ab.")
_MAX_VALUE = 200
"""Most characters of a value in a sentence. Longer values are cut."""


def _text_of(value: Any) -> str:
    if value is None:
        return Sentence("nothing", "nichts")
    return truncated(value if isinstance(value, str) else msgspec.json.encode(value).decode(), _MAX_VALUE)


def _dict(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    inner = value.get(name)
    return inner if isinstance(inner, Mapping) else {}


def account_totals(connection: Connection[Any], accounts: Sequence[tuple[str, str]]) -> Totals:
    """Return the totals of these accounts, given as (account number, external number)."""
    parameters = {"numbers": [number for number, _ in accounts], "externals": [external for _, external in accounts]}
    [(stored_accounts, erased)] = rows_of(connection, _SELECT_ACCOUNTS, **parameters)
    paths: dict[str, PathTotal] = {}
    for source, statement in _STATEMENTS.items():
        [row] = rows_of(connection, statement, **parameters)
        paths |= _paths_of(source, row)
    [sums] = rows_of(connection, _SELECT_SUMS, **parameters)
    ledgers = rows_of(connection, _SELECT_LEDGERS, **parameters)
    return Totals(
        accounts=stored_accounts,
        erased=erased,
        paths=paths,
        sums={name: amount for name, amount in zip(SUMS, sums, strict=True) if amount is not None},
        ledgers={code: LedgerTotal(*totals) for code, *totals in ledgers},
    )


def _paths_of(source: str, row: Sequence[Any]) -> dict[str, PathTotal]:
    path_columns = (path_column for path_column in PATH_COLUMNS if path_column.source == source)
    counted = zip(path_columns, row[::2], row[1::2], strict=True)
    return {
        path_column.path: PathTotal(count, int(digest) % MODULUS) for path_column, count, digest in counted if count
    }


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
    """Return the query for one row with (count, sum of digests) for each `PathColumn` of the source."""
    sums = []
    for path_column in (path_column for path_column in PATH_COLUMNS if path_column.source == source.name):
        value = _VALUES[path_column.sql_type].format(c=path_column.expression) if path_column.expression else "''"
        text = f"s.external || E'\\x1f' || {source.ordinal} || E'\\x1f' || {source.parent} || E'\\x1f' || {value}"
        digest = f"('x' || encode(substr(sha256(convert_to({text}, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint"
        filled = _filled(path_column)
        sums.append(f"count(*) FILTER (WHERE {filled}), coalesce(sum({digest}) FILTER (WHERE {filled}), 0)")
    return f"""
SELECT {", ".join(sums)}
FROM unnest(%(numbers)s::text[], %(externals)s::text[]) AS s (account_number, external)
JOIN {source.rows} AS t USING (account_number)
""".encode()  # noqa: S608 - names of fields in schemas/


_STATEMENTS = {source.name: _statement(source) for source in SOURCES.values()}
_SELECT_LEDGERS = b"""
SELECT l.ledger_code, count(*), count(l.ledger_balance), coalesce(sum(l.ledger_balance), 0),
       coalesce(sum(t.number), 0)::bigint, coalesce(sum(t.amount), 0)
FROM platform.ledger AS l, LATERAL (
    SELECT count(*) AS number, sum(nullif(v ->> 'amount', '')::numeric) AS amount
    FROM json_array_elements(l.current_statement_transactions) AS v
) AS t
WHERE l.account_number = ANY(%(numbers)s)
GROUP BY l.ledger_code
"""
_SELECT_ACCOUNTS = b"""
SELECT count(*) FILTER (WHERE erased_at IS NULL), count(*) FILTER (WHERE erased_at IS NOT NULL)
FROM platform.service_account
WHERE account_number = ANY(%(numbers)s)
"""
_SUM = "(SELECT sum({}) FROM {} AS t WHERE account_number = ANY(%(numbers)s))"
_SUMMED = {
    path_column.path: _SUM.format(path_column.expression, SOURCES[path_column.source].rows)
    for path_column in PATH_COLUMNS
}
_SELECT_SUMS = f"SELECT {', '.join(_SUMMED[path] for path in SUMS.values())}".encode()
