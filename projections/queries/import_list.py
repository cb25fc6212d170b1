"""Lists of imports of several suppliers with filters, newest first.

The cost of a page does not grow with the number of imports: a page examines a limited number of candidates. If few
candidates match, the page is short and names the start of the next page.
"""

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, LiteralString

import msgspec
from psycopg import AsyncConnection

from eventstore.aggregates.import_process import stream_of
from eventstore.log.rows import fetch_rows, fetch_structs
from projections.views.account_search import MAX_FOUND, search_accounts
from projections.views.import_status import STATUS_CONDITIONS
from schemas.base import instant

PAGE = 50
MAX_CANDIDATES = 20_000
"""Candidates per page of a filter without an index."""
MAX_FAILED = 2_000
"""Candidates per page of a filter by problem. Each candidate needs a lookup."""
END = 10**18
"""Upper bound of positions: greater than every position of the log."""
_SKEW = timedelta(minutes=5)
"""Greatest difference of the appending servers' clocks. Positions of a day are searched with this margin."""
_FIRST_DAY, _LAST_DAY = date.min + timedelta(days=1), date.max - timedelta(days=1)
"""First and last day that have a day before and after them."""


class ListFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter of a list of imports. Fields that are "" or None do not filter. `day` is in German market time."""

    suppliers: tuple[str, ...]
    """Suppliers that the reader may see, or the requested one."""
    status: str = ""
    code: str = ""
    is_problem: bool = False
    """True if `code` is the code of a problem of the import, False if it is the code of `latest_error`."""
    path: str = ""
    """Path of a problem, with [] for any item of an array. It requires the code of a problem."""
    is_fixed: bool | None = None
    """True for imports that were processed after they had failed for the problem, False for imports that were not, None
    for all.
    """
    run: str = ""
    day: date | None = None
    text: str = ""

    @property
    def is_indexed(self) -> bool:
        """Return whether an index finds exactly the matches."""
        if self.run or self.day or self.text:
            return not (self.day or self.text or self.status or self.code)
        if self.code and self.is_problem:
            return not self.status and (self.is_fixed is None or bool(self.path))
        return self.status != "PROCESSED"

    @property
    def settled(self) -> "ListFilter | None":
        """Return the filter with the `is_fixed` that follows from its status; None if no import can match."""
        if not self.code or not self.status:
            return self
        if not self.is_problem:
            return self if self.status in FAILED else None
        if self.status == "CANCELLED":
            return None
        is_fixed = _FIXED.get(self.status, self.is_fixed)
        if self.is_fixed not in (None, is_fixed):
            return None
        return msgspec.structs.replace(self, is_fixed=is_fixed)


FAILED = ("ERRORED", "DRY_RUN_ERRORED")
_FIXED = dict.fromkeys(("PROCESSED", "DRY_RUN_SUCCEEDED"), True) | dict.fromkeys(FAILED, False)
"""Value of `is_fixed` by the status of an import that has failed. Cancelled imports have no failure."""


class ListedRow(msgspec.Struct, frozen=True, kw_only=True):
    """An import in a list. The external number is its only personal data."""

    supplier: str
    external_account_number: str
    status: str
    account_number: str | None
    created_at: datetime
    modified_at: datetime
    error_code: str | None
    """Code of the problem in the filter; without a filter, of a problem of the last failure."""
    error_path: str = ""
    """Path of the problem, with [] for any item of an array."""
    problems: int = 1
    """Number of different problems of the last failure that fit the filter."""
    attempt: int | None
    sort_key: int
    """Sort key of the list. The next page begins after the last sort key."""


class ListPage(msgspec.Struct, frozen=True):
    """A page of a list; `next_after` is the parameter of the next page, "" after the last page."""

    imports: list[ListedRow]
    next_after: str


_COLUMNS: LiteralString = (
    "s.supplier, s.external_account_number, s.status, s.account_number, s.created_at, s.modified_at, s.error_code,"
    " s.attempt"
)

_SELECT_IN_ORDER: LiteralString = f"""
SELECT {_COLUMNS}, s.created_position AS sort_key
FROM unnest(%(suppliers)s::text[]) AS mine (code), LATERAL (
    SELECT *
    FROM import_status AS t
    WHERE t.supplier = mine.code AND created_position < %(before)s AND created_position >= %(first)s{{led}}
    ORDER BY created_position DESC
    LIMIT %(candidates)s
) AS s"""  # noqa: S608 - constants
"""Newest imports of each supplier."""

_SELECT_FAILED: LiteralString = f"""
SELECT {_COLUMNS}, f.position AS sort_key
FROM unnest(%(suppliers)s::text[]) AS mine (code), LATERAL (
    SELECT DISTINCT ON (position) supplier, external_account_number, position
    FROM import_failure
    WHERE supplier = mine.code AND code = %(code)s{{led}} AND position < %(before)s
    ORDER BY position DESC
    LIMIT %(candidates)s
) AS f
JOIN import_status AS s USING (supplier, external_account_number)"""  # noqa: S608 - constants
"""Imports whose last failure had a problem with a code, at a path or at any path."""

_SELECT_OF_RUN: LiteralString = f"""
SELECT {_COLUMNS}, a.position AS sort_key
FROM unnest(%(suppliers)s::text[]) AS mine (code), LATERAL (
    SELECT supplier, external_account_number, position
    FROM import_run_account
    WHERE supplier = mine.code AND run = %(run)s AND (position, external_account_number) < (%(before)s, %(last)s)
    ORDER BY position DESC, external_account_number DESC
    LIMIT %(candidates)s
) AS a
JOIN import_status AS s USING (supplier, external_account_number)"""  # noqa: S608 - constants

_MATCHES: LiteralString = """
WHERE (%(status)s = '' OR status = %(status)s)
  AND (%(begins_at)s::timestamptz IS NULL OR (created_at >= %(begins_at)s AND created_at < %(ends_at)s))
  AND (%(code)s = '' OR (error_code = %(code)s AND %(path)s = '' AND %(fixed)s::boolean IS NULL) OR EXISTS (
        SELECT FROM import_failure AS p
        WHERE p.stream = 'import/' || c.supplier || '/' || c.external_account_number AND p.code = %(code)s
          AND (%(path)s = '' OR p.path = %(path)s)
          AND (%(fixed)s::boolean IS NULL OR (p.fixed_at IS NOT NULL) = %(fixed)s::boolean)))"""

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
"""Query of the first position of a time, by binary search, since the log is in the order of time."""


_SELECT_PROBLEMS: LiteralString = """
SELECT DISTINCT ON (stream) stream, code, path, count(*) OVER (PARTITION BY stream) AS problems
FROM import_failure
WHERE stream = ANY(%(streams)s) AND (%(path)s = '' OR path = %(path)s)
  AND (code = %(code)s OR (%(code)s = '' AND fixed_at IS NULL))
ORDER BY stream, code, path
"""


async def names_of_imports(
    connection: AsyncConnection[Any], list_filter: ListFilter, *, most: int
) -> list[tuple[str, str]]:
    """Return (supplier, external account number) of the matching imports in the order of the list, at most `most`."""
    names: list[tuple[str, str]] = []
    after: str | None = ""
    while len(names) < most and after is not None:
        page = await _page(connection, list_filter, after, most - len(names))
        names += [(row.supplier, row.external_account_number) for row in page.imports]
        after = page.next_after or None
    return names


async def list_imports(
    connection: AsyncConnection[Any], list_filter: ListFilter, *, after: str = "", limit: int = PAGE
) -> ListPage:
    """Read a page of matching imports, newest first; with a text, the best matches first.

    Rows of failed imports have the code and path of the problem in the filter, or else of the first problem. `after` is
    `next_after` of the previous page. Raises ValueError for any other text.
    """
    page = await _page(connection, list_filter, after, limit)
    is_wanted = bool(list_filter.code)
    streams = {
        stream_of(row.supplier, row.external_account_number): number
        for number, row in enumerate(page.imports)
        if is_wanted or row.error_code
    }
    if not streams or (is_wanted and not list_filter.is_problem):
        return page
    parameters = {"streams": [*streams], "code": list_filter.code, "path": list_filter.path}
    rows = list(page.imports)
    for stream, code, path, problems in await fetch_rows(connection, _SELECT_PROBLEMS, **parameters):
        named = {"error_code": code, "error_path": path, "problems": problems}
        rows[streams[stream]] = msgspec.structs.replace(rows[streams[stream]], **named)
    return ListPage(rows, page.next_after)


async def _page(connection: AsyncConnection[Any], list_filter: ListFilter, after: str, limit: int) -> ListPage:
    before, last = (END, "") if list_filter.text else _parse_after(after)
    settled = list_filter.settled
    if settled is None:
        return ListPage([], "")
    list_filter = settled
    if list_filter.text:
        return await _search(connection, list_filter, after, min(limit, MAX_FOUND))
    max_candidates = MAX_FAILED if list_filter.code and list_filter.is_problem else MAX_CANDIDATES
    candidates = (
        limit + 1 if list_filter.is_indexed else max(limit + 1, max_candidates // max(1, len(list_filter.suppliers)))
    )
    parameters = await _parameters(connection, list_filter)
    before = min(before, parameters["end"])
    parameters |= {"before": before, "last": last, "candidates": candidates, "limit": limit + 1}
    query = _query_of(list_filter)
    rows = await fetch_structs(connection, ListedRow, _page_of(query), **parameters)
    listed = rows[:limit]
    if len(rows) > limit:
        return ListPage(listed, _after(listed[-1], list_filter))
    if list_filter.is_indexed:
        return ListPage(listed, "")
    examined_upto = await _examined_upto(connection, query, parameters, candidates)
    if not examined_upto:
        return ListPage(listed, "")
    complete = [
        row for row in listed if row.sort_key > examined_upto
    ]  # some candidates with the last sort key may be missing
    return ListPage(complete, f"{examined_upto + 1 if examined_upto + 1 < before else examined_upto}")


def _query_of(list_filter: ListFilter) -> LiteralString:
    """Return the query with the best index for the filter."""
    if list_filter.run:
        return _SELECT_OF_RUN
    if list_filter.code and list_filter.is_problem:
        at: LiteralString = ""
        if list_filter.path:
            fixed: dict[bool | None, LiteralString] = {None: "", True: " AND fixed_at IS NOT NULL"}
            at = " AND path = %(path)s" + fixed.get(list_filter.is_fixed, " AND fixed_at IS NULL")
        return _SELECT_FAILED.replace("{led}", at)
    led: LiteralString = ""
    if list_filter.status and list_filter.status != "PROCESSED":
        led = STATUS_CONDITIONS[list_filter.status]
    if list_filter.code:
        led += " AND error_code = %(code)s"
    return _SELECT_IN_ORDER.replace("{led}", led)


def _page_of(query: LiteralString) -> LiteralString:
    return (
        f"SELECT * FROM ({query}) AS c {_MATCHES}"  # noqa: S608 - constants
        " ORDER BY sort_key DESC, external_account_number DESC LIMIT %(limit)s"
    )


async def _examined_upto(
    connection: AsyncConnection[Any], query: LiteralString, parameters: dict[str, Any], candidates: int
) -> int:
    """Return the sort key down to which the candidates of all suppliers were examined; 0 after all candidates."""
    counting = (
        f"SELECT coalesce(max(least), 0) FROM (SELECT supplier, min(sort_key) AS least, count(*) AS number"  # noqa: S608
        f" FROM ({query}) AS c GROUP BY supplier) AS looked WHERE number >= %(candidates)s"
    )
    [(number,)] = await fetch_rows(connection, counting, **parameters)
    return int(number)


async def _parameters(connection: AsyncConnection[Any], list_filter: ListFilter) -> dict[str, Any]:
    begins_at = ends_at = None
    first, end = 0, END
    if list_filter.day is not None:
        day = min(max(list_filter.day, _FIRST_DAY), _LAST_DAY)
        begins_at = instant(datetime.combine(day, time()))
        ends_at = instant(datetime.combine(day + timedelta(days=1), time()))
        first = await _first_since(connection, begins_at - _SKEW)
        end = await _first_since(connection, ends_at + _SKEW)
    return {
        "suppliers": list(list_filter.suppliers),
        "status": list_filter.status,
        "code": list_filter.code,
        "path": list_filter.path,
        "fixed": list_filter.is_fixed,
        "run": list_filter.run,
        "begins_at": begins_at,
        "ends_at": ends_at,
        "first": first,
        "end": end,
    }


async def _first_since(connection: AsyncConnection[Any], at: datetime) -> int:
    rows = await fetch_rows(connection, _SELECT_FIRST, at=at)
    return int(rows[0][0]) if rows and rows[0][0] is not None else 1


async def _search(connection: AsyncConnection[Any], list_filter: ListFilter, after: str, limit: int) -> ListPage:
    """Return the matches of a text that also match the rest of the filter. The page may be short."""
    page = await search_accounts(connection, list_filter.text, list_filter.suppliers, after=after, limit=limit)
    names = [(account.import_supplier, account.external_account_number) for account in page.accounts]
    parameters = await _parameters(connection, list_filter)
    query = f"SELECT * FROM ({_SELECT_BY_NAME}) AS c {_MATCHES} AND {_IS_OF_RUN}"  # noqa: S608 - constants
    parameters |= {"names": [supplier for supplier, _ in names], "externals": [external for _, external in names]}
    rows = await fetch_structs(connection, ListedRow, query, **parameters)
    by_name = {(row.supplier, row.external_account_number): row for row in rows}
    return ListPage([by_name[name] for name in names if name in by_name], page.next_after)


_SELECT_BY_NAME: LiteralString = f"""
SELECT {_COLUMNS}, s.created_position AS sort_key
FROM unnest(%(names)s::text[], %(externals)s::text[]) AS named (supplier, external_account_number)
JOIN import_status AS s USING (supplier, external_account_number)"""  # noqa: S608 - constants


class RowDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Person and postcode of an import as search terms, and its newest run; "" without a run.

    Pages mask names and postcodes, which are personal data. All values are from views that can be behind the log.
    """

    stream: str
    names: str
    postcode: str
    run: str


_SELECT_DETAILS = """
SELECT t.stream, coalesce(split_part(a.names, '|', 1), '') AS names,
       coalesce((SELECT min(term) FROM unnest(a.terms) AS term WHERE term ~ '^[0-9]{5}$'), '') AS postcode,
       coalesce(r.run, '') AS run
FROM unnest(%(streams)s::text[], %(suppliers)s::text[], %(externals)s::text[]) AS t (stream, supplier, external)
LEFT JOIN account_search AS a USING (stream)
LEFT JOIN LATERAL (
    SELECT run
    FROM import_run_account
    WHERE supplier = t.supplier AND external_account_number = t.external
    ORDER BY position DESC
    LIMIT 1
) AS r ON true
"""


async def row_details(connection: AsyncConnection[Any], rows: Sequence[ListedRow]) -> dict[str, RowDetails]:
    """Read the details of listed imports, by stream."""
    suppliers, externals = [row.supplier for row in rows], [row.external_account_number for row in rows]
    parameters = {"streams": [*map(stream_of, suppliers, externals)], "suppliers": suppliers, "externals": externals}
    details = await fetch_structs(connection, RowDetails, _SELECT_DETAILS, **parameters)
    return {detail.stream: detail for detail in details}


async def imports_by_name(connection: AsyncConnection[Any], names: Sequence[tuple[str, str]]) -> list[ListedRow]:
    """Read the imports with these (supplier, external account number), if they exist."""
    parameters = {"names": [supplier for supplier, _ in names], "externals": [external for _, external in names]}
    return await fetch_structs(connection, ListedRow, _SELECT_BY_NAME, **parameters)


def _parse_after(after: str) -> tuple[int, str]:
    """Parse the position and external number after which a page begins. Raises ValueError."""
    if not after:
        return END, ""
    sort_key, _, last = after.partition("~")
    if not (sort_key.isascii() and sort_key.isdigit() and len(sort_key) < 19) or "\0" in last:
        raise ValueError("this is not the start of a page")
    return int(sort_key), last


def _after(row: ListedRow, list_filter: ListFilter) -> str:
    """Return `next_after` of a page that ends with the row. Only accounts of a run may have the same position."""
    return f"{row.sort_key}~{row.external_account_number}" if list_filter.run else f"{row.sort_key}"
