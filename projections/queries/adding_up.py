"""Adding the platform's rows up for the accounts of a run, portion by portion, in the database."""

from collections.abc import Sequence
from typing import Any

from psycopg import Connection
from psycopg.rows import tuple_row

from projections.platform.totals import MODULUS, PLACES, SOURCES, SUMS, LedgerTotal, PathTotal, Place, Source, Totals
from projections.views.import_run import RunPlace, run_accounts

PORTION = 500
"""Accounts that one query adds up."""


def run_portion(
    connection: Connection[Any], supplier: str, run: str, after: RunPlace
) -> tuple[Totals, int, RunPlace | None]:
    """Return what the next accounts of a run add up to, their number, and where they end; None at the end."""
    count, accounts, end = run_accounts(connection, supplier, run, after, PORTION)
    return _account_totals(connection, accounts) if accounts else Totals(), count, end


def _account_totals(connection: Connection[Any], accounts: Sequence[tuple[str, str]]) -> Totals:
    """Return what these accounts add up to, by account number and external number."""
    wanted = {"numbers": [number for number, _ in accounts], "externals": [external for _, external in accounts]}
    with connection.cursor(row_factory=tuple_row) as cursor:
        [(there, erased)] = cursor.execute(_SELECT_ACCOUNTS, wanted).fetchall()
        paths: dict[str, PathTotal] = {}
        for source, statement in _STATEMENTS.items():
            [row] = cursor.execute(statement, wanted).fetchall()
            paths |= _paths_of(source, row)
        [sums] = cursor.execute(_SELECT_SUMS, wanted).fetchall()
        ledgers = cursor.execute(_SELECT_LEDGERS, wanted).fetchall()
    return Totals(
        accounts=there,
        erased=erased,
        paths=paths,
        sums={name: amount for name, amount in zip(SUMS, sums, strict=True) if amount is not None},
        ledgers={code: LedgerTotal(*one) for code, *one in ledgers},
    )


def _paths_of(source: str, row: Sequence[Any]) -> dict[str, PathTotal]:
    places = (place for place in PLACES if place.source == source)
    counted = zip(places, row[::2], row[1::2], strict=True)
    return {place.path: PathTotal(count, int(digest) % MODULUS) for place, count, digest in counted if count}


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
"""How a value is written for its digest, by the column's type."""


def _filled(place: Place) -> str:
    """The SQL condition that the column says more than nothing, and more than what is said when it is left out."""
    column = place.expression
    match place.sql_type:
        case "":
            return "true"
        case "text":
            default = place.default if isinstance(place.default, str) else ""
            return f"{column} <> ''" + (f" AND {column} <> '{default}'" if default.isidentifier() else "")
        case "text[]":
            return f"cardinality({column}) > 0"
        case "json":
            return f"""btrim({column}::text) NOT IN ('null', '""', '[]', '{{}}')"""
        case "boolean" if isinstance(place.default, bool):
            return f"{column} <> {str(place.default).lower()}"
        case "bigint" if isinstance(place.default, int):
            return f"{column} <> {int(place.default)}"
        case _:
            return f"{column} IS NOT NULL"


def _statement(source: Source) -> bytes:
    """One row of (count, sum of digests) pairs, a pair for each of the source's places, over some accounts."""
    sums = []
    for place in (place for place in PLACES if place.source == source.name):
        value = _VALUES[place.sql_type].format(c=place.expression) if place.expression else "''"
        text = f"s.external || E'\\x1f' || {source.ordinal} || E'\\x1f' || {source.parent} || E'\\x1f' || {value}"
        digest = f"('x' || encode(substr(sha256(convert_to({text}, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint"
        filled = _filled(place)
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
    FROM jsonb_array_elements(l.current_statement_transactions) AS v
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
_SUMMED = {place.path: _SUM.format(place.expression, SOURCES[place.source].rows) for place in PLACES}
_SELECT_SUMS = f"SELECT {', '.join(_SUMMED[path] for path in SUMS.values())}".encode()
