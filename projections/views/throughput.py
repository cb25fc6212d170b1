"""Numbers of imports received, processed, failed and refused, by minute and by hour, for charts.

Follows the log. Hours are stored beside minutes, so that a chart of a week reads few rows.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec
from psycopg import AsyncConnection

from eventstore.aggregates.import_process import (
    DryRunErrored,
    DryRunSucceeded,
    ImportErrored,
    ImportProcessed,
    ImportStaged,
)
from eventstore.aggregates.run import RequestsRefused, RunCounted
from eventstore.log.rows import fetch_rows
from projections.versions.following import Counter
from projections.versions.reading import Seen

KINDS = ("received", "processed", "failed", "refused")


class _Grid(msgspec.Struct, frozen=True):
    """Layout of a chart: stored span, width of a bar, number of bars."""

    span: str
    bar: timedelta
    bars: int


_GRIDS: dict[str, _Grid] = {
    "hour": _Grid("minute", timedelta(minutes=1), 60),
    "day": _Grid("minute", timedelta(minutes=10), 144),
    "week": _Grid("hour", timedelta(hours=1), 168),
}
PERIODS = tuple(_GRIDS)

_KIND_OF: dict[type[Any], str] = {
    ImportStaged: "received",
    ImportProcessed: "processed",
    DryRunSucceeded: "processed",
    ImportErrored: "failed",
    DryRunErrored: "failed",
    RequestsRefused: "refused",
    RunCounted: "refused",
}


def project(seen: Seen) -> Iterator[tuple[str, str, datetime, str, int]]:
    """Yield (supplier, span, its start, kind, number) of an event, for its minute and its hour. Pure."""
    event = seen.recorded.event
    match event:
        case RequestsRefused(counts=counts):
            number = sum(counts.values())
        case RunCounted(refused=refused):
            number = refused
        case _:
            number = 1
    if number:
        supplier, kind = seen.recorded.supplier or "", _KIND_OF[type(event)]
        minute, hour = _beginnings(int(seen.recorded.recorded_at.timestamp()) // 60)
        yield supplier, "minute", minute, kind, number
        yield supplier, "hour", hour, kind, number


@lru_cache(maxsize=256)
def _beginnings(minute: int) -> tuple[datetime, datetime]:
    """Return the start of a minute, given in minutes since 1970, and the start of its hour."""
    at = datetime.fromtimestamp(minute * 60, UTC)
    return at, _floor(at, 3_600)


def _floor(at: datetime, seconds: int) -> datetime:
    return datetime.fromtimestamp(int(at.timestamp()) // seconds * seconds, UTC)


THROUGHPUT = Counter(
    "throughput",
    events=tuple(_KIND_OF),
    columns="supplier text NOT NULL, span text NOT NULL, at timestamptz NOT NULL, kind text NOT NULL,"
    " number bigint NOT NULL, PRIMARY KEY (supplier, span, at, kind)",
    folds_all=True,
    project=project,
)


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A bar of a chart; `at` is its start (UTC)."""

    at: datetime
    received: int = 0
    processed: int = 0
    failed: int = 0
    refused: int = 0


_SELECT = """
SELECT date_bin(%(bar)s, at, to_timestamp(0)) AS begins, kind, sum(number)::bigint
FROM throughput
WHERE supplier = ANY(%(suppliers)s) AND span = %(span)s AND at >= %(first)s AND at < %(end)s
GROUP BY begins, kind
"""

_SELECT_LATE = """
SELECT supplier, kind, sum(number)::bigint
FROM throughput
WHERE supplier = ANY(%s) AND span = 'minute' AND at >= %s AND at < %s
GROUP BY supplier, kind
"""


def bars_of(rows: Sequence[tuple[datetime, str, int]], period: str, at: datetime) -> list[Bar]:
    """Return the bars of a period that ends with the bar of `at`, from rows (start, kind, number). Pure."""
    grid = _GRIDS[period]
    width = int(grid.bar.total_seconds())
    last = _floor(at, width)
    sums: dict[datetime, dict[str, int]] = {}
    for begins, kind, number in rows:
        bar = sums.setdefault(_floor(begins, width), {})
        bar[kind] = bar.get(kind, 0) + number
    begins_at = [last - grid.bar * back for back in range(grid.bars - 1, -1, -1)]
    return [Bar(at=begins, **sums.get(begins, {})) for begins in begins_at]


async def throughput(
    connection: AsyncConnection[Any], suppliers: Sequence[str], period: str, at: datetime
) -> list[Bar]:
    """Read the bars of the last hour, day or week, summed over the suppliers."""
    grid = _GRIDS[period]
    last = _floor(at, int(grid.bar.total_seconds()))
    parameters = {
        "suppliers": list(suppliers),
        "span": grid.span,
        "bar": grid.bar,
        "first": last - grid.bar * (grid.bars - 1),
        "end": last + grid.bar,
    }
    rows = await fetch_rows(connection, _SELECT, **parameters)
    return bars_of(rows, period, at)


_SELECT_RECENT = """
SELECT supplier, date_bin(%(bar)s, at, to_timestamp(0)) AS begins, sum(number)::bigint
FROM throughput
WHERE supplier = ANY(%(suppliers)s) AND span = 'minute' AND at >= %(first)s AND at < %(end)s
  AND kind IN ('processed', 'failed')
GROUP BY supplier, begins
"""
RECENT, RECENT_BAR = 12, timedelta(minutes=5)
"""Number and width of the bars of a supplier's recent activity."""


async def recent_activity(
    connection: AsyncConnection[Any], suppliers: Sequence[str], at: datetime
) -> dict[str, tuple[int, ...]]:
    """Read the numbers of imports that ended in each five minutes of the last hour, by supplier, the oldest first."""
    last = _floor(at, int(RECENT_BAR.total_seconds()))
    begins_at = [last - RECENT_BAR * back for back in range(RECENT - 1, -1, -1)]
    parameters = {"suppliers": list(suppliers), "bar": RECENT_BAR, "first": begins_at[0], "end": last + RECENT_BAR}
    numbers: dict[str, dict[datetime, int]] = {code: {} for code in suppliers}
    for code, begins, number in await fetch_rows(connection, _SELECT_RECENT, **parameters):
        numbers[code][_floor(begins, int(RECENT_BAR.total_seconds()))] = number
    return {code: tuple(ended.get(begins, 0) for begins in begins_at) for code, ended in numbers.items()}


RATE_MINUTES = 5
"""Whole minutes over which the rate of imports is computed."""


async def late_counts(
    connection: AsyncConnection[Any], suppliers: Sequence[str], at: datetime
) -> dict[str, dict[str, int]]:
    """Read the numbers of the last five whole minutes, by supplier and kind."""
    upto = _floor(at, 60)
    parameters = (list(suppliers), upto - timedelta(minutes=RATE_MINUTES), upto)
    counts: dict[str, dict[str, int]] = {}
    for supplier, kind, number in await fetch_rows(connection, _SELECT_LATE, *parameters):
        counts.setdefault(supplier, {})[kind] = number
    return counts
