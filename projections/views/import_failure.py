"""Failed imports by code and path, and whether they were processed since. Follows the log.

Two tables: `import_failure` has a row for each problem of each import's last failure. `import_failure_count` has
numbers by code and path: of `open` accounts, of `fixed` accounts (processed since), and of failures of each day.
"""

from collections import Counter as Sums
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import msgspec
from psycopg import AsyncConnection, Connection
from psycopg.sql import SQL, Identifier

from eventstore.aggregates.import_process import (
    DryRunErrored,
    DryRunSucceeded,
    ImportCancelled,
    ImportErrored,
    ImportProcessed,
    ImportReverted,
    SubjectErased,
    identity_of,
)
from eventstore.log.copy_format import copy_into
from eventstore.log.rows import fetch_rows, fetch_structs, rows_of
from projections.versions.following import Following, add_numbers
from projections.versions.projection import declared_columns_of
from projections.versions.reading import Seen
from projections.views.error_statistics import CountByDay, after_row, days_until
from schemas.base import MARKET_TIME, code_and_path
from schemas.reading.documented_paths import path_pattern

MAX_PROBLEMS = 50
"""Different problems of one failure that are stored. Further problems are dropped."""
PAGE = 50
"""Rows per page of `failure_counts`."""
OPEN, FIXED = "open", "fixed"

_TABLES = {
    "import_failure": "stream text NOT NULL, code text NOT NULL, path text NOT NULL, supplier text NOT NULL,"
    " external_account_number text NOT NULL, position bigint NOT NULL, failed_at timestamptz NOT NULL,"
    " fixed_at timestamptz, PRIMARY KEY (stream, code, path)",
    "import_failure_count": "supplier text NOT NULL, code text NOT NULL, path text NOT NULL, kind text NOT NULL,"
    " number bigint NOT NULL, PRIMARY KEY (supplier, code, path, kind)",
}
_INDEXES = {
    "import_failure": (
        "(supplier, code, position)",
        "(supplier, code, path, position)",
        "(supplier, code, path, position) WHERE fixed_at IS NULL",
        "(supplier, code, path, position) WHERE fixed_at IS NOT NULL",
    )
}
_COUNTED = ("supplier", "code", "path", "kind", "number")


class _Failed(msgspec.Struct):
    """Last failure of an import: its problems by code and path, and the time at which the import was processed after
    it.
    """

    problems: tuple[tuple[str, str], ...]
    position: int
    failed_at: datetime
    fixed_at: datetime | None = None


class ImportFailures(Following):
    """The projection of failures; the module describes its two tables."""

    folds_all = True

    def __init__(self) -> None:
        ended = (ImportErrored, DryRunErrored, ImportProcessed, DryRunSucceeded)
        events = (*ended, ImportCancelled, ImportReverted, SubjectErased)
        super().__init__("import_failure", _TABLES, _INDEXES, events=events)

    def apply(self, connection: Connection[Any], schema: str, batch: Sequence[Seen]) -> None:
        before = _failures(connection, schema, list({seen.stream for seen in batch}))
        after: dict[str, _Failed | None] = dict(before)
        counts: Sums[tuple[str, str, str, str]] = Sums()
        for seen in batch:
            failure = after_event(after.get(seen.stream), seen)
            if isinstance(seen.recorded.event, ImportErrored | DryRunErrored) and failure is not None:
                supplier, _ = identity_of(seen.stream)
                counts.update((supplier, *problem, _day(failure.failed_at)) for problem in failure.problems)
            after[seen.stream] = failure
        changed = {stream: failure for stream, failure in after.items() if failure != before.get(stream)}
        for stream, failure in changed.items():
            supplier, _ = identity_of(stream)
            counts.subtract(_counted(supplier, before.get(stream)))
            counts.update(_counted(supplier, failure))
        _write(connection, schema, changed, counts)


IMPORT_FAILURE = ImportFailures()


def after_event(failure: _Failed | None, seen: Seen) -> _Failed | None:
    """Return the last failure after an event; None without one, or after a cancellation, a revert or an erasure."""
    match seen.recorded.event:
        case ImportErrored() | DryRunErrored() as event:
            return _Failed(problem_paths(event.code, event.problems), seen.position, seen.recorded.recorded_at)
        case ImportProcessed() | DryRunSucceeded() if failure is not None and failure.fixed_at is None:
            return msgspec.structs.replace(failure, fixed_at=seen.recorded.recorded_at)
        case ImportCancelled() | ImportReverted() | SubjectErased():
            return None
        case _:
            return failure


def problem_paths(code: str, problems: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the different (code, path) of a failure's problems, with [] for items of arrays; without problems, the
    failure's code.
    """
    if not problems:
        return ((code, ""),)
    named = {(problem, path_pattern(attr) if attr else "") for problem, attr in map(code_and_path, problems)}
    return tuple(sorted(named)[:MAX_PROBLEMS])


def _counted(supplier: str, failure: _Failed | None) -> list[tuple[str, str, str, str]]:
    if failure is None:
        return []
    kind = OPEN if failure.fixed_at is None else FIXED
    return [(supplier, *problem, kind) for problem in failure.problems]


def _day(at: datetime) -> str:
    return at.astimezone(MARKET_TIME).date().isoformat()


def _failures(connection: Connection[Any], schema: str, streams: list[str]) -> dict[str, _Failed | None]:
    query = SQL(
        "SELECT stream, array_agg(code ORDER BY code, path), array_agg(path ORDER BY code, path), min(position),"
        " min(failed_at), min(fixed_at) FROM {} WHERE stream = ANY(%s) GROUP BY stream"
    ).format(Identifier(schema, "import_failure"))
    return {
        stream: _Failed(tuple(zip(codes, paths, strict=True)), position, failed_at, fixed_at)
        for stream, codes, paths, position, failed_at, fixed_at in rows_of(connection, query, streams)
    }


def _write(
    connection: Connection[Any],
    schema: str,
    changed: dict[str, _Failed | None],
    counts: Sums[tuple[str, str, str, str]],
) -> None:
    table = Identifier(schema, "import_failure")
    if changed:
        connection.execute(SQL("DELETE FROM {} WHERE stream = ANY(%s)").format(table), (list(changed),))
    rows = [
        (stream, code, path, *identity_of(stream), failure.position, failure.failed_at, failure.fixed_at)
        for stream, failure in changed.items()
        if failure is not None
        for code, path in failure.problems
    ]
    for first in range(0, len(rows), _ROWS_AT_A_TIME):
        copy_into(connection, schema, "import_failure", _COLUMNS, rows[first : first + _ROWS_AT_A_TIME])
    add_numbers(connection, Identifier(schema, "import_failure_count"), _COUNTED, counts)


_ROWS_AT_A_TIME = 20_000
"""Rows per statement, which must end within the statement's time limit."""
_COLUMNS = tuple(declared_columns_of(_TABLES["import_failure"]))


class FailureCount(CountByDay, frozen=True, kw_only=True):
    """Numbers of a supplier's accounts with a code at a path: still failed, processed since, and failures by day."""

    open: int
    fixed: int

    @property
    def sort_key(self) -> "FailureSortKey":
        """Sort key of this row. The next page begins after the sort key of the last row."""
        return self.open, self.fixed, self.supplier, self.code, self.path


FailureSortKey = tuple[int, int, str, str, str]
"""Sort key of the list: open accounts, fixed accounts, supplier, code, path."""

_SELECT_COUNTS = """
SELECT * FROM (
    SELECT supplier, code, path,
           coalesce(sum(number) FILTER (WHERE kind = 'open'), 0)::bigint AS open,
           coalesce(sum(number) FILTER (WHERE kind = 'fixed'), 0)::bigint AS fixed,
           array_agg(kind) FILTER (WHERE kind >= %(first)s AND kind < 'a') AS days,
           array_agg(number) FILTER (WHERE kind >= %(first)s AND kind < 'a') AS numbers
    FROM import_failure_count
    WHERE supplier = ANY(%(suppliers)s) AND kind >= %(first)s AND (%(code)s = '' OR code = %(code)s)
    GROUP BY supplier, code, path
) AS counted
WHERE %(open)s::bigint IS NULL
   OR (-open, -fixed, supplier, code, path)
      > (-%(open)s::bigint, -%(fixed)s::bigint, %(after_supplier)s, %(after_code)s, %(after_path)s)
ORDER BY open DESC, fixed DESC, supplier, code, path
LIMIT %(limit)s
"""


async def failure_counts(
    connection: AsyncConnection[Any],
    suppliers: Sequence[str],
    today: date,
    *,
    days: int,
    code: str = "",
    after: FailureSortKey | None = None,
    limit: int = PAGE,
) -> list[FailureCount]:
    """Read the codes and paths of failures after a sort key, those with most open accounts first.

    `today` is the last of the counted days, in German market time; `code` is "" for all codes.
    """
    listed = [day.isoformat() for day in days_until(today, days)]
    parameters = {"suppliers": list(suppliers), "first": listed[0], "code": code, "limit": limit}
    parameters |= after_row(("open", "fixed", "after_supplier", "after_code", "after_path"), after)
    rows = await fetch_rows(connection, _SELECT_COUNTS, **parameters)
    return [
        FailureCount(
            supplier=supplier,
            code=code,
            path=path,
            open=open_accounts,
            fixed=fixed,
            days=tuple(dict(zip(counted_days or (), numbers or (), strict=True)).get(day, 0) for day in listed),
        )
        for supplier, code, path, open_accounts, fixed, counted_days, numbers in rows
    ]


class FailureCause(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of accounts of several suppliers with a code at a path.

    `suppliers` are the suppliers with open accounts.
    """

    code: str
    path: str
    open: int
    fixed: int
    first: date
    last: date
    """First and last day with a failure."""
    days: tuple[int, ...]
    """Failures on each of the last days, from the oldest day to today."""
    suppliers: tuple[str, ...]

    @property
    def sort_key(self) -> "CauseSortKey":
        """Sort key of this row. The next page begins after the sort key of the last row."""
        return self.open, self.fixed, self.code, self.path


CauseSortKey = tuple[int, int, str, str]
"""Sort key of the list: open accounts, fixed accounts, code, path."""

_SELECT_CAUSES = """
SELECT * FROM (
    SELECT code, path,
           coalesce(sum(number) FILTER (WHERE kind = 'open'), 0)::bigint AS open,
           coalesce(sum(number) FILTER (WHERE kind = 'fixed'), 0)::bigint AS fixed,
           min(kind) FILTER (WHERE kind < 'a') AS first, max(kind) FILTER (WHERE kind < 'a') AS last,
           array_agg(kind) FILTER (WHERE kind >= %(first)s AND kind < 'a') AS days,
           array_agg(number) FILTER (WHERE kind >= %(first)s AND kind < 'a') AS numbers,
           array_agg(supplier ORDER BY number DESC, supplier) FILTER (WHERE kind = 'open' AND number > 0) AS suppliers
    FROM import_failure_count
    WHERE supplier = ANY(%(suppliers)s)
    GROUP BY code, path
) AS counted
WHERE first IS NOT NULL AND (open > 0 OR fixed > 0 OR last >= %(first)s)
  AND (%(open)s::bigint IS NULL
       OR (-open, -fixed, code, path) > (-%(open)s::bigint, -%(fixed)s::bigint, %(after_code)s, %(after_path)s))
ORDER BY open DESC, fixed DESC, code, path
LIMIT %(limit)s
"""


async def failure_causes(
    connection: AsyncConnection[Any],
    suppliers: Sequence[str],
    today: date,
    *,
    days: int,
    after: CauseSortKey | None = None,
    limit: int = PAGE,
) -> list[FailureCause]:
    """Read the codes and paths of failures after a sort key, those with most open accounts first.

    `today` is in German market time.
    """
    listed = [day.isoformat() for day in days_until(today, days)]
    parameters = {"suppliers": list(suppliers), "first": listed[0], "limit": limit}
    parameters |= after_row(("open", "fixed", "after_code", "after_path"), after)
    causes = []
    for code, path, open_accounts, fixed, first, last, kinds, numbers, having in await fetch_rows(
        connection, _SELECT_CAUSES, **parameters
    ):
        by_day: Sums[str] = Sums()
        for day, number in zip(kinds or (), numbers or (), strict=True):
            by_day[day] += number
        causes.append(
            FailureCause(
                code=code,
                path=path,
                open=open_accounts,
                fixed=fixed,
                first=date.fromisoformat(first),
                last=date.fromisoformat(last),
                days=tuple(by_day[day] for day in listed),
                suppliers=tuple(having or ()),
            )
        )
    return causes


class FailureExample(msgspec.Struct, frozen=True, kw_only=True):
    """An account that fails for a cause, and its newest run, or ""."""

    code: str
    path: str
    supplier: str
    external_account_number: str
    run: str


EXAMPLES = 3
"""Examples of each cause: the newest failures."""
_SELECT_EXAMPLES = f"""
SELECT c.code, c.path, c.supplier, f.external_account_number, coalesce(r.run, '') AS run
FROM unnest(%(codes)s::text[], %(paths)s::text[], %(suppliers)s::text[]) AS c (code, path, supplier)
CROSS JOIN LATERAL (
    SELECT external_account_number, position
    FROM import_failure
    WHERE supplier = c.supplier AND code = c.code AND path = c.path AND fixed_at IS NULL
    ORDER BY position DESC
    LIMIT {EXAMPLES}
) AS f
LEFT JOIN LATERAL (
    SELECT run
    FROM import_run_account
    WHERE supplier = c.supplier AND external_account_number = f.external_account_number
    ORDER BY position DESC
    LIMIT 1
) AS r ON true
ORDER BY f.position DESC
"""  # noqa: S608 - constants


async def failure_examples(
    connection: AsyncConnection[Any], causes: Sequence[FailureCause]
) -> dict[tuple[str, str], list[FailureExample]]:
    """Read the newest accounts that fail for each cause, by code and path."""
    wanted = [(cause.code, cause.path, code) for cause in causes for code in cause.suppliers[:EXAMPLES]]
    columns = [list(column) for column in zip(*wanted, strict=True)] or [[], [], []]
    parameters = dict(zip(("codes", "paths", "suppliers"), columns, strict=True))
    examples: dict[tuple[str, str], list[FailureExample]] = {}
    for example in await fetch_structs(connection, FailureExample, _SELECT_EXAMPLES, **parameters):
        listed = examples.setdefault((example.code, example.path), [])
        if len(listed) < EXAMPLES:
            listed.append(example)
    return examples
