"""Lists of imports for people: of several suppliers, by everything that a list can be narrowed by, newest first.

Every page costs the same, however many imports there are: it looks at so many candidates, and where few of them are
wanted it is short and says where the next one goes on.
"""

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, LiteralString

import msgspec
from psycopg import AsyncConnection
from psycopg.rows import class_row, tuple_row

from projections.views.account_search import MAX_FOUND, found_accounts
from projections.views.import_status import STATUS_CONDITIONS
from schemas.base import instant

PAGE = 50
MAX_CANDIDATES = 20_000
"""Imports that a page looks at, where no index leads to those that are wanted."""
MAX_FAILED = 2_000
"""The same of those that have named a problem, each of which has to be looked up."""
END = 10**18
"""A position after all others."""
_SKEW = timedelta(minutes=5)
_FIRST_DAY, _LAST_DAY = date.min + timedelta(days=1), date.max - timedelta(days=1)
"""Days that have one before and one after them. Nothing was imported on those at the ends of the calendar."""
"""By how much the clocks of those who append may differ: positions of a day are looked up with so much room."""


class Narrowed(msgspec.Struct, frozen=True, kw_only=True):
    """What a list is narrowed by; "" and None leave it as it is. `day` is in German market time."""

    suppliers: tuple[str, ...]
    """Those that the reader may see, or the one that was asked for."""
    status: str = ""
    code: str = ""
    is_problem: bool = False
    """Whether the code is one of an import's problems rather than of its `latest_error`."""
    path: str = ""
    """A place, with [] for any item of an array; only with a code that is a problem's."""
    is_mended: bool | None = None
    """Whether it was processed since it failed for the code, which is a problem's; None for both."""
    run: str = ""
    day: date | None = None
    text: str = ""

    @property
    def is_indexed(self) -> bool:
        """Whether an index leads to all that is wanted and to nothing else."""
        if self.run or self.day or self.text:
            return not (self.day or self.text or self.status or self.code)
        if self.code and self.is_problem:
            return not self.status and (self.is_mended is None or bool(self.path))
        return self.status != "PROCESSED"

    @property
    def settled(self) -> "Narrowed | None":
        """The same with what its parts say of each other; None where no import can be wanted."""
        if not self.code or not self.status:
            return self
        if not self.is_problem:
            return self if self.status in FAILED else None
        if self.status == "CANCELLED":
            return None
        is_mended = _MENDED.get(self.status, self.is_mended)
        if self.is_mended not in (None, is_mended):
            return None
        return msgspec.structs.replace(self, is_mended=is_mended)


FAILED = ("ERRORED", "DRY_RUN_ERRORED")
_MENDED = dict.fromkeys(("PROCESSED", "DRY_RUN_SUCCEEDED"), True) | dict.fromkeys(FAILED, False)
"""States that say whether an import that has failed was mended since; who is cancelled has no failure any more."""


class ListedRow(msgspec.Struct, frozen=True, kw_only=True):
    """An import as a list shows it: nothing about persons but the number in the old system."""

    supplier: str
    external_account_number: str
    status: str
    account_number: str | None
    created_at: datetime
    modified_at: datetime
    error_code: str | None
    attempt: int | None
    place: int
    """Where the list stands with it: the next page begins after the last."""


class ListPage(msgspec.Struct, frozen=True):
    """A page of a list; `next_after` is where the next begins, "" where there is none."""

    imports: list[ListedRow]
    next_after: str


_COLUMNS: LiteralString = (
    "s.supplier, s.external_account_number, s.status, s.account_number, s.created_at, s.modified_at, s.error_code,"
    " s.attempt"
)

_SELECT_IN_ORDER: LiteralString = f"""
SELECT {_COLUMNS}, s.created_position AS place
FROM unnest(%(suppliers)s::text[]) AS mine (code), LATERAL (
    SELECT *
    FROM import_status AS t
    WHERE t.supplier = mine.code AND created_position < %(before)s AND created_position >= %(first)s{{led}}
    ORDER BY created_position DESC
    LIMIT %(candidates)s
) AS s"""  # noqa: S608 - constants
"""The newest imports of each supplier."""

_SELECT_FAILED: LiteralString = f"""
SELECT {_COLUMNS}, f.position AS place
FROM unnest(%(suppliers)s::text[]) AS mine (code), LATERAL (
    SELECT DISTINCT ON (position) supplier, external_account_number, position
    FROM import_failure
    WHERE supplier = mine.code AND code = %(code)s{{led}} AND position < %(before)s
    ORDER BY position DESC
    LIMIT %(candidates)s
) AS f
JOIN import_status AS s USING (supplier, external_account_number)"""  # noqa: S608 - constants
"""Those whose last failure has named a code, at a place or at any."""

_SELECT_OF_RUN: LiteralString = f"""
SELECT {_COLUMNS}, a.position AS place
FROM unnest(%(suppliers)s::text[]) AS mine (code), LATERAL (
    SELECT supplier, external_account_number, position
    FROM import_run_account
    WHERE supplier = mine.code AND run = %(run)s AND (position, external_account_number) < (%(before)s, %(last)s)
    ORDER BY position DESC, external_account_number DESC
    LIMIT %(candidates)s
) AS a
JOIN import_status AS s USING (supplier, external_account_number)"""  # noqa: S608 - constants

_IS_WANTED: LiteralString = """
WHERE (%(status)s = '' OR status = %(status)s)
  AND (%(begins_at)s::timestamptz IS NULL OR (created_at >= %(begins_at)s AND created_at < %(ends_at)s))
  AND (%(code)s = '' OR (error_code = %(code)s AND %(path)s = '' AND %(mended)s::boolean IS NULL) OR EXISTS (
        SELECT FROM import_failure AS p
        WHERE p.stream = 'import/' || c.supplier || '/' || c.external_account_number AND p.code = %(code)s
          AND (%(path)s = '' OR p.path = %(path)s)
          AND (%(mended)s::boolean IS NULL OR (p.mended_at IS NOT NULL) = %(mended)s::boolean)))"""

_IS_OF_RUN: LiteralString = """
(%(run)s = '' OR EXISTS (
    SELECT FROM import_run_account AS r
    WHERE r.supplier = c.supplier AND r.run = %(run)s AND r.external_account_number = c.external_account_number))"""

_SELECT_FIRST = """
WITH RECURSIVE halving (low, high) AS (
    SELECT 1::bigint, (SELECT coalesce(max(position), 0) + 1 FROM events)
    UNION ALL
    SELECT CASE WHEN e.recorded_at < %(at)s THEN half.middle + 1 ELSE half.low END,
           CASE WHEN e.recorded_at < %(at)s THEN half.high ELSE half.middle END
    FROM (SELECT low, high, (low + high) / 2 AS middle FROM halving WHERE low < high) AS half
    JOIN events AS e ON e.position = half.middle
)
SELECT max(low) FROM halving WHERE low >= high
"""
"""The first position of a time, by halving: the log is in the order of time."""


async def list_imports(
    connection: AsyncConnection[Any], narrowed: Narrowed, *, after: str = "", limit: int = PAGE
) -> ListPage:
    """A page of the imports that are wanted, newest first; found by text, in the order of how well it fits.

    `after` is what the page before has given. Raises ValueError for one that no page has given.
    """
    before, last = (END, "") if narrowed.text else _place(after)
    settled = narrowed.settled
    if settled is None:
        return ListPage([], "")
    narrowed = settled
    if narrowed.text:
        return await _found(connection, narrowed, after, min(limit, MAX_FOUND))
    most = MAX_FAILED if narrowed.code and narrowed.is_problem else MAX_CANDIDATES
    candidates = limit + 1 if narrowed.is_indexed else max(limit + 1, most // max(1, len(narrowed.suppliers)))
    parameters = await _parameters(connection, narrowed)
    before = min(before, parameters["end"])
    parameters |= {"before": before, "last": last, "candidates": candidates, "limit": limit + 1}
    query = _query_of(narrowed)
    async with connection.cursor(row_factory=class_row(ListedRow)) as cursor:
        rows = await (await cursor.execute(_page_of(query), parameters)).fetchall()
    listed = rows[:limit]
    if len(rows) > limit:
        return ListPage(listed, _after(listed[-1], narrowed))
    if narrowed.is_indexed:
        return ListPage(listed, "")
    looked_upto = await _looked_upto(connection, query, parameters, candidates)
    if not looked_upto:
        return ListPage(listed, "")
    kept = [row for row in listed if row.place > looked_upto]  # of those at the last place, some may not be seen yet
    return ListPage(kept, f"{looked_upto + 1 if looked_upto + 1 < before else looked_upto}")


def _query_of(narrowed: Narrowed) -> LiteralString:
    """The query whose index leads nearest to what is wanted."""
    if narrowed.run:
        return _SELECT_OF_RUN
    if narrowed.code and narrowed.is_problem:
        at: LiteralString = ""
        if narrowed.path:
            mended: dict[bool | None, LiteralString] = {None: "", True: " AND mended_at IS NOT NULL"}
            at = " AND path = %(path)s" + mended.get(narrowed.is_mended, " AND mended_at IS NULL")
        return _SELECT_FAILED.replace("{led}", at)
    led: LiteralString = ""
    if narrowed.status and narrowed.status != "PROCESSED":
        led = STATUS_CONDITIONS[narrowed.status]
    if narrowed.code:
        led += " AND error_code = %(code)s"
    return _SELECT_IN_ORDER.replace("{led}", led)


def _page_of(query: LiteralString) -> LiteralString:
    return (
        f"SELECT * FROM ({query}) AS c {_IS_WANTED}"  # noqa: S608 - constants
        " ORDER BY place DESC, external_account_number DESC LIMIT %(limit)s"
    )


async def _looked_upto(
    connection: AsyncConnection[Any], query: LiteralString, parameters: dict[str, Any], candidates: int
) -> int:
    """The last place up to which all suppliers' candidates were looked at; 0 where all were."""
    counting = (
        f"SELECT coalesce(max(least), 0) FROM (SELECT supplier, min(place) AS least, count(*) AS number"  # noqa: S608
        f" FROM ({query}) AS c GROUP BY supplier) AS looked WHERE number >= %(candidates)s"
    )
    async with connection.cursor(row_factory=tuple_row) as cursor:
        row = await (await cursor.execute(counting, parameters)).fetchone()
    return int(row[0]) if row else 0


async def _parameters(connection: AsyncConnection[Any], narrowed: Narrowed) -> dict[str, Any]:
    begins_at = ends_at = None
    first, end = 0, END
    if narrowed.day is not None:
        day = min(max(narrowed.day, _FIRST_DAY), _LAST_DAY)
        begins_at = instant(datetime.combine(day, time()))
        ends_at = instant(datetime.combine(day + timedelta(days=1), time()))
        first = await _first_since(connection, begins_at - _SKEW)
        end = await _first_since(connection, ends_at + _SKEW)
    return {
        "suppliers": list(narrowed.suppliers),
        "status": narrowed.status,
        "code": narrowed.code,
        "path": narrowed.path,
        "mended": narrowed.is_mended,
        "run": narrowed.run,
        "begins_at": begins_at,
        "ends_at": ends_at,
        "first": first,
        "end": end,
    }


async def _first_since(connection: AsyncConnection[Any], at: datetime) -> int:
    async with connection.cursor(row_factory=tuple_row) as cursor:
        row = await (await cursor.execute(_SELECT_FIRST, {"at": at})).fetchone()
    return int(row[0]) if row and row[0] is not None else 1


async def _found(connection: AsyncConnection[Any], narrowed: Narrowed, after: str, limit: int) -> ListPage:
    """What a text finds, as far as the rest of what is wanted holds for it: such a page may be short."""
    page = await found_accounts(connection, narrowed.text, narrowed.suppliers, after=after, limit=limit)
    named = [(one.import_supplier, one.external_account_number) for one in page.accounts]
    parameters = await _parameters(connection, narrowed)
    query = f"SELECT * FROM ({_SELECT_OF_NAMES}) AS c {_IS_WANTED} AND {_IS_OF_RUN}"  # noqa: S608 - constants
    parameters |= {"names": [one for one, _ in named], "externals": [other for _, other in named]}
    async with connection.cursor(row_factory=class_row(ListedRow)) as cursor:
        rows = await (await cursor.execute(query, parameters)).fetchall()
    by_name = {(row.supplier, row.external_account_number): row for row in rows}
    return ListPage([by_name[name] for name in named if name in by_name], page.next_after)


_SELECT_OF_NAMES: LiteralString = f"""
SELECT {_COLUMNS}, s.created_position AS place
FROM unnest(%(names)s::text[], %(externals)s::text[]) AS named (supplier, external_account_number)
JOIN import_status AS s USING (supplier, external_account_number)"""  # noqa: S608 - constants


async def imports_named(connection: AsyncConnection[Any], names: Sequence[tuple[str, str]]) -> list[ListedRow]:
    """These imports by (supplier, external account number), as far as there are such."""
    parameters = {"names": [one for one, _ in names], "externals": [other for _, other in names]}
    async with connection.cursor(row_factory=class_row(ListedRow)) as cursor:
        return await (await cursor.execute(_SELECT_OF_NAMES, parameters)).fetchall()


def _place(after: str) -> tuple[int, str]:
    """Position and external number after which a page begins. Raises ValueError."""
    if not after:
        return END, ""
    place, _, last = after.partition("~")
    if not (place.isascii() and place.isdigit() and len(place) < 19) or "\0" in last:
        raise ValueError("no page ends there")
    return int(place), last


def _after(row: ListedRow, narrowed: Narrowed) -> str:
    """Accounts of a run may share a position; others do not."""
    return f"{row.place}~{row.external_account_number}" if narrowed.run else f"{row.place}"
