"""Failed imports by code and path, and whether they were processed since. Follows the log.

Two tables: `import_failure` has a row for each problem of each import's last failure. `import_failure_count` has
numbers by code and path: of `open` accounts, of `fixed` accounts (processed since), and of failures of each day.
"""

from collections import Counter as Sums
from collections.abc import Sequence
from datetime import date, datetime, timedelta
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
from eventstore.log.rows import fetch_rows, rows_of
from projections.versions.following import Following, add_numbers
from projections.versions.projection import declared_columns_of
from projections.versions.reading import Seen
from projections.views.error_statistics import CountByDay
from schemas.base import MARKET_TIME, code_and_path
from schemas.reading.documented_paths import path_pattern

MAX_PROBLEMS = 50
"""Different problems of one failure that are stored. Further ones are dropped."""
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
    """Last failure of an import: its problems by code and path, and when it was processed since."""

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
    """Return the different (code, path) of a failure, with [] for items of arrays; without problems its own code."""
    if not problems:
        return ((code, ""),)
    counted_days = (code_and_path(name) for name in problems)
    return tuple(
        sorted({(problem, path_pattern(attr) if attr else "") for problem, attr in counted_days})[:MAX_PROBLEMS]
    )


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
        """Sort key of this row. The next page begins after the last one."""
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

    `today` is in German market time; `code` is "" for all.
    """
    listed = [(today - timedelta(days=back)).isoformat() for back in range(days - 1, -1, -1)]
    names = ("open", "fixed", "after_supplier", "after_code", "after_path")
    parameters = {"suppliers": list(suppliers), "first": listed[0], "code": code, "limit": limit}
    parameters |= dict(zip(names, after or (None,) * len(names), strict=True))
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
