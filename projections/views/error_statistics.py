"""Numbers of refused requests and failed imports by supplier, day, code and path. Follows the log."""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Any

import msgspec
from psycopg import AsyncConnection

from eventstore.aggregates.import_process import DryRunErrored, ImportErrored
from eventstore.aggregates.run import RequestsRefused, RunCounted
from eventstore.log.rows import fetch_rows, fetch_structs
from projections.versions.following import Counter
from projections.versions.reading import Seen
from schemas.base import MARKET_TIME, code_and_path, problem_name
from schemas.reading.documented_paths import path_pattern
from schemas.status import ErrorCount

MAX_ROWS = 10_000

_SOURCES: dict[type[Any], str] = {
    RequestsRefused: "request",
    RunCounted: "request",
    ImportErrored: "import",
    DryRunErrored: "dry_run",
}


def project(seen: Seen) -> Iterator[tuple[str, date, str, str, str, int]]:
    """Yield (supplier, day in German market time, source of the event, code, path, number of accounts). Pure.

    A failed import counts once: under its first problem, or without problems under the code of its failure.
    """
    event = seen.recorded.event
    supplier, day = seen.recorded.supplier or "", seen.recorded.recorded_at.astimezone(MARKET_TIME).date()
    source = _SOURCES[type(event)]
    match event:
        case RequestsRefused(counts=counts) | RunCounted(counts=counts):
            counted = counts
        case ImportErrored(code=code, problems=problems) | DryRunErrored(code=code, problems=problems):
            counted = {failure_name(code, problems): 1}
        case _:
            counted = {}
    for name, number in counted.items():
        yield supplier, day, source, *code_and_path(name), number


def failure_name(code: str, problems: Sequence[str]) -> str:
    """Return the name under which a failure counts: its first problem, with [] for items of arrays, or its code."""
    if not problems:
        return code
    first, attr = code_and_path(problems[0])
    return problem_name(first, path_pattern(attr))


ERROR_STATISTICS = Counter(
    "error_statistics",
    events=tuple(_SOURCES),
    columns="supplier text NOT NULL, day date NOT NULL, source text NOT NULL, code text NOT NULL, path text NOT NULL,"
    " number bigint NOT NULL, PRIMARY KEY (supplier, day, source, code, path)",
    folds_all=True,
    edition="3: a failure counts once, whatever it names",
    project=project,
)

_SELECT = f"""
SELECT day, source, code, path, number
FROM error_statistics
WHERE supplier = %s AND (%s::date IS NULL OR day >= %s) AND (%s::date IS NULL OR day <= %s)
ORDER BY day, number DESC, source, code, path
LIMIT {MAX_ROWS}
"""  # noqa: S608 - constants


async def supplier_errors(
    connection: AsyncConnection[Any], supplier: str, first: date | None, last: date | None
) -> list[ErrorCount]:
    """Read the errors from one day to another, the most frequent errors of a day first; at most 10,000 rows."""
    return await fetch_structs(connection, ErrorCount, _SELECT, supplier, first, first, last, last)


class CountByDay(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of a supplier's errors with a code and path."""

    supplier: str
    code: str
    path: str
    days: tuple[int, ...]
    """Number of errors on each of the last days, from the oldest day to today."""


def days_until(today: date, number: int) -> list[date]:
    """Return the last days, from the oldest day to today."""
    return [today - timedelta(days=back) for back in range(number - 1, -1, -1)]


def after_row(names: Sequence[str], sort_key: Sequence[Any] | None) -> dict[str, Any]:
    """Return the parameters of a page that begins after a sort key; NULL for the first page."""
    return dict(zip(names, sort_key or (None,) * len(names), strict=True))


class RefusalCount(CountByDay, frozen=True, kw_only=True):
    """Number of a supplier's requests that were refused for a code at a path, in the period and by day."""

    number: int

    @property
    def sort_key(self) -> "RefusalSortKey":
        """Sort key of this row. The next page begins after the sort key of the last row."""
        return self.number, self.supplier, self.code, self.path


RefusalSortKey = tuple[int, str, str, str]
"""Sort key of the list: number, supplier, code, path."""

SELECT_REFUSALS = b"""
SELECT sum(number)::bigint AS number, code, path
FROM error_statistics
WHERE supplier = %s AND source = 'request'
GROUP BY code, path
ORDER BY number DESC, code, path
"""
"""Codes and paths of a supplier's refused requests, the most frequent first."""

_SELECT_REFUSED = """
SELECT * FROM (
    SELECT supplier, code, path, sum(number)::bigint AS number, array_agg(day), array_agg(number)
    FROM error_statistics
    WHERE supplier = ANY(%(suppliers)s) AND day >= %(first)s AND source = 'request'
    GROUP BY supplier, code, path
) AS counted (supplier, code, path, number, days, numbers)
WHERE %(number)s::bigint IS NULL
   OR (-number, supplier, code, path) > (-%(number)s::bigint, %(after_supplier)s, %(after_code)s, %(after_path)s)
ORDER BY number DESC, supplier, code, path
LIMIT %(limit)s
"""


async def refused_requests(
    connection: AsyncConnection[Any],
    suppliers: Sequence[str],
    today: date,
    *,
    days: int,
    after: RefusalSortKey | None = None,
    limit: int = 50,
) -> list[RefusalCount]:
    """Read the codes and paths of refused requests after a sort key, the most frequent first.

    `today` is in German market time.
    """
    listed = days_until(today, days)
    parameters = {"suppliers": list(suppliers), "first": listed[0], "limit": limit}
    parameters |= after_row(("number", "after_supplier", "after_code", "after_path"), after)
    rows = await fetch_rows(connection, _SELECT_REFUSED, **parameters)
    return [
        RefusalCount(
            supplier=supplier,
            code=code,
            path=path,
            number=int(number),
            days=tuple(dict(zip(counted_days, numbers, strict=True)).get(day, 0) for day in listed),
        )
        for supplier, code, path, number, counted_days, numbers in rows
    ]
