"""State of suppliers' imports: counts by status, rate, estimated time for waiting imports, and longest wait."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from psycopg import AsyncConnection

from eventstore.aggregates.import_process import STATUSES, WAITING
from eventstore.log.rows import fetch_rows
from projections.views.throughput import RATE_MINUTES, late_counts

ORDER = ["ongoing", "paused", "complete"]
"""Statuses of suppliers in the order of the list."""
SupplierSortKey = tuple[int, int, str]
"""Sort key of suppliers: imports that need attention, rank of their status, and code."""
FAILED = ("ERRORED", "DRY_RUN_ERRORED")


class SupplierStanding(msgspec.Struct, frozen=True, kw_only=True):
    """A supplier: its status and reason, its imports by status, and their rate."""

    code: str
    status: str
    reason: str
    attention: int = 0
    """Imports that need an action: failed imports, and imports that wait because the supplier is paused."""
    by_status: dict[str, int]
    per_minute: float
    """Imports ended per minute, in the last whole minutes."""
    received_per_minute: float
    oldest_waiting_at: datetime | None
    """Time of the oldest waiting import."""

    @property
    def sort_key(self) -> SupplierSortKey:
        """Sort key of this supplier. The next page begins after the sort key of the last supplier."""
        return self.attention, (ORDER.index(self.status) + 1 if self.status in ORDER else 9), self.code

    @property
    def total(self) -> int:
        return sum(self.by_status.values())

    @property
    def waiting(self) -> int:
        return sum(self.by_status.get(status, 0) for status in WAITING)

    @property
    def failed(self) -> int:
        return sum(self.by_status.get(status, 0) for status in FAILED)

    @property
    def error_share(self) -> float | None:
        """Share of failed imports among ended imports; None if no import has ended."""
        ended = self.total - self.waiting - self.by_status.get("CANCELLED", 0)
        return self.failed / ended if ended else None

    @property
    def eta_s(self) -> float | None:
        """Estimated seconds for the waiting imports; 0 if no import waits, None if no import ends."""
        if not self.waiting:
            return 0.0
        return self.waiting / self.per_minute * 60 if self.per_minute else None

    @property
    def shares(self) -> list[tuple[str, int, float]]:
        """(status, number, share) of each status with imports, in the order in which an import passes through them."""
        present = [(status, self.by_status.get(status, 0)) for status in STATUSES]
        return [(status, number, number / self.total) for status, number in present if number]


_SELECT_CODES = """
SELECT code
FROM import_supplier
WHERE %(reach)s::text[] IS NULL OR code = ANY(%(reach)s)
ORDER BY code
"""
_SELECT_PAGE = """
SELECT code, status, reason, attention
FROM (
    SELECT s.code, s.status, s.reason, coalesce(array_position(%(order)s::text[], s.status), 9) AS rank,
           coalesce(sum(p.number) FILTER (
               WHERE p.status = 'ERRORED' OR (s.status = 'paused' AND p.status = 'PENDING')), 0)::bigint AS attention
    FROM import_supplier AS s LEFT JOIN import_progress AS p ON p.supplier = s.code
    WHERE %(reach)s::text[] IS NULL OR s.code = ANY(%(reach)s)
    GROUP BY s.code, s.status, s.reason
) AS ranked
WHERE %(attention)s::bigint IS NULL OR (-attention, rank, code) > (-%(attention)s::bigint, %(rank)s, %(code)s)
ORDER BY attention DESC, rank, code
LIMIT %(limit)s
"""
_SELECT_COUNTS = "SELECT supplier, status, number FROM import_progress WHERE supplier = ANY(%s) AND number > 0"
_SELECT_OLDEST = """
SELECT mine.code, (
    SELECT created_at
    FROM import_status
    WHERE supplier = mine.code AND status = 'PENDING'
    ORDER BY created_position
    LIMIT 1)
FROM unnest(%s::text[]) AS mine (code)
"""


async def supplier_codes(connection: AsyncConnection[Any], reach: Sequence[str] | None) -> list[str]:
    """Read the codes of all suppliers, or of those in `reach`."""
    rows = await fetch_rows(connection, _SELECT_CODES, reach=None if reach is None else list(reach))
    return [code for (code,) in rows]


async def counts_by_status(connection: AsyncConnection[Any], codes: Sequence[str]) -> dict[str, dict[str, int]]:
    """Read the numbers of imports by supplier and status."""
    counts: dict[str, dict[str, int]] = {}
    for code, status, number in await fetch_rows(connection, _SELECT_COUNTS, list(codes)):
        counts.setdefault(code, {})[status] = number
    return counts


async def supplier_standings(
    connection: AsyncConnection[Any],
    reach: Sequence[str] | None,
    at: datetime,
    *,
    after: SupplierSortKey | None = None,
    limit: int | None = None,
) -> list[SupplierStanding]:
    """Read all suppliers, or those in `reach`, at most `limit`, after a sort key.

    Suppliers with most imports that need attention are first, then ongoing suppliers.
    """
    attention, rank, code = after or (None, 0, "")
    parameters = {"attention": attention, "rank": rank, "code": code, "order": ORDER}
    parameters |= {"reach": None if reach is None else list(reach)}
    suppliers = await fetch_rows(connection, _SELECT_PAGE, **(parameters | {"limit": limit}))
    codes = [code for code, *_ in suppliers]
    late = await late_counts(connection, codes, at)
    counts = await counts_by_status(connection, codes)
    oldest: dict[str, datetime | None] = dict(await fetch_rows(connection, _SELECT_OLDEST, codes))
    return [
        SupplierStanding(
            code=code,
            status=status,
            reason=reason,
            attention=attention,
            by_status=counts.get(code, {}),
            per_minute=_a_minute(late.get(code, {}), "processed", "failed"),
            received_per_minute=_a_minute(late.get(code, {}), "received"),
            oldest_waiting_at=oldest.get(code),
        )
        for code, status, reason, attention in suppliers
    ]


def _a_minute(counts: Mapping[str, int], *kinds: str) -> float:
    return sum(counts.get(kind, 0) for kind in kinds) / RATE_MINUTES
