"""Status of each import process, for v1 status, v2 status and lists by supplier.

Table `import_status`; written in the append's transaction.
"""

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, Literal, LiteralString

import msgspec
from msgspec import UNSET
from psycopg import AsyncConnection, Connection

from eventstore.aggregates.aggregate import Event
from eventstore.aggregates.import_process import (
    IMPORT_PROCESS,
    STATUSES,
    DryRunErrored,
    DryRunSucceeded,
    ImportCancelled,
    ImportErrored,
    ImportPostponed,
    ImportProcessed,
    ImportRetried,
    ImportReverted,
    ImportStaged,
    ImportStarted,
    SubjectErased,
    status_after,
)
from eventstore.events import Recorded
from eventstore.log.rows import fetch_rows, rows_of, value_of
from projections.versions.view import Values, View
from projections.views.account_release import RELEASED_AT
from schemas.status import ImportListItem, ImportState, ImportStatus, LatestError, ListedImport, TransferStatus

LEAVES_STATUS: LiteralString = (
    """e.topic = 'subject_erased.v1' AND encode(e.state, 'escape') LIKE '%%"account_number":%%'"""
)
"""SQL condition on an erasure of an import with an account, which stays PROCESSED.

The condition also accepts malformed events.
"""


def _after(*same: str, **renamed: str) -> Callable[[Event, Recorded], Values]:
    """Return the change to the status after the event, with columns from fields of the event.

    `same` are columns with the name of their field, `renamed` are fields by column. Other columns become NULL, because
    each event has all values of the row.
    """
    fields = dict(zip(same, same, strict=True)) | renamed

    def change(event: Event, recorded: Recorded) -> Values:
        values = {column: getattr(event, field) for column, field in fields.items()}
        return {"status": status_after(event), "version": recorded.version, **values}

    return change


_without_more = _after()
_failed = _after("attempt", error_code="code", error_detail="detail", error_domain="domain")

IMPORT_STATUS = View(
    "import_status",
    "supplier text NOT NULL, external_account_number text NOT NULL, status text NOT NULL,"
    " created_at timestamptz NOT NULL, created_position bigint NOT NULL, modified_at timestamptz NOT NULL,"
    " position bigint NOT NULL, version integer NOT NULL, account_number text, account_created_at timestamptz,"
    " error_code text, error_detail text, error_domain text, due_at timestamptz, lease_until timestamptz,"
    " worker bigint, attempt integer",
    {
        ImportStaged: _after(due_at="not_before"),
        ImportStarted: _after("attempt", "worker", "lease_until"),
        ImportPostponed: _after("attempt", "due_at"),
        ImportProcessed: _after("attempt", "account_number", account_created_at="created_at"),
        ImportErrored: _failed,
        DryRunErrored: _failed,
        DryRunSucceeded: _after("attempt"),
        ImportRetried: _without_more,
        ImportCancelled: _without_more,
        ImportReverted: _without_more,
        SubjectErased: lambda event, recorded: None if event.account_number else _without_more(event, recorded),
    },
    prefix=IMPORT_PROCESS.prefix,
    named=("supplier", "external_account_number"),
    first=("created_at", "created_position"),
    positions=("created_position", "position"),
    forgets=("error_detail",),
    indexes={
        "import_status_in_order": "(supplier, created_position)",
        "import_status_open": "(status, modified_at) WHERE status IN ('PENDING', 'IN_PROGRESS')",
        "import_status_by_status": "(supplier, status, created_position)"
        " WHERE status IN ('PENDING', 'ERRORED', 'CANCELLED', 'DRY_RUN_SUCCEEDED', 'DRY_RUN_ERRORED')",
        "import_status_by_error": "(supplier, error_code, created_position) WHERE error_code IS NOT NULL",
        "import_status_by_error_and_status": "(supplier, status, error_code, created_position)"
        " WHERE error_code IS NOT NULL",
        "import_status_with_error": "(supplier, created_position) WHERE error_code IS NOT NULL",
    },
    skipped=LEAVES_STATUS,
)

SELECT_IMPORTS_WAIT: LiteralString = """
SELECT EXISTS (
    SELECT FROM import_status
    WHERE status = 'PENDING' AND (due_at IS NULL OR due_at <= clock_timestamp())
      AND NOT EXISTS (SELECT FROM import_supplier AS s WHERE s.code = supplier AND s.status = 'paused')) AS waits
"""
"""True if an import could be processed now."""
_SELECT_STATUSES: LiteralString = f"""
SELECT supplier, external_account_number,
       status, account_number, created_at, modified_at, error_code, error_detail, error_domain, {RELEASED_AT}
FROM unnest(%s::text[], %s::text[]) AS wanted (supplier, external_account_number)
JOIN import_status AS s USING (supplier, external_account_number)
"""  # noqa: S608 - constants


_HAS_PROBLEM: LiteralString = """
EXISTS (SELECT FROM events AS e
        WHERE e.stream = 'import/' || s.supplier || '/' || s.external_account_number AND e.version = s.version
          AND strpos(encode(e.state, 'escape'), '"' || %(code)s || '@') > 0)"""
"""SQL condition that the last event of a failed import `s` has a problem with a code."""

SELECT_EXTERNALS = f"""
SELECT external_account_number
FROM import_status AS s
WHERE supplier = %(supplier)s AND status = %(status)s
  AND (%(code)s::text IS NULL OR error_code = %(code)s OR (error_code IS NOT NULL AND {_HAS_PROBLEM}))
ORDER BY created_position
"""  # noqa: S608 - constants


_SELECT_LEASED = """
SELECT supplier, external_account_number
FROM import_status
WHERE status = 'IN_PROGRESS' AND worker = %s AND lease_until = %s
"""


def leased_imports(connection: Connection[Any], worker: int, lease_until: datetime) -> list[tuple[str, str]]:
    """Read (supplier, external account number) of the imports that a worker holds under a lease, given by its end."""
    return rows_of(connection, _SELECT_LEASED, worker, lease_until)


def imports_wait(connection: Connection[Any]) -> bool:
    """Return whether an import could be processed now."""
    return bool(value_of(connection, SELECT_IMPORTS_WAIT))


def _candidates(conditions: LiteralString) -> LiteralString:
    return f"""
SELECT *
FROM import_status
WHERE supplier = %(supplier)s AND created_position > %(after)s{conditions}
ORDER BY created_position
LIMIT %(candidates)s"""  # noqa: S608 - constants


def _select_page(candidates: LiteralString, condition: LiteralString) -> LiteralString:
    return f"""
SELECT external_account_number, status, account_number, created_at, modified_at, error_code, error_detail,
       error_domain, {RELEASED_AT}, created_position
FROM ({candidates}) AS s
WHERE {condition}
ORDER BY created_position
LIMIT %(limit)s
"""  # noqa: S608 - constants


_MAX_CANDIDATES = 10_000
"""Failed imports that a page examines for a problem's code. Also a page before the end may be short."""

STATUS_CONDITIONS: dict[str, LiteralString] = {status: f" AND status = '{status}'" for status in STATUSES}
"""Condition by status. The status is in the query's text, so that Postgres can use partial indexes."""

PENDING_STATES = ("PENDING", "IN_PROGRESS", "ERRORED", "DRY_RUN_SUCCEEDED", "DRY_RUN_ERRORED")
"""Statuses without an account, except CANCELLED."""
IMPORTED_STATES = ("PROCESSED",)
ALL_STATES = (*PENDING_STATES, *IMPORTED_STATES)

_TRANSFER_STATES: dict[ImportState, Literal["COMPLETED", "IN_PROGRESS"]] = {
    "PROCESSED": "COMPLETED",
    "IN_PROGRESS": "IN_PROGRESS",
}


async def import_statuses(
    connection: AsyncConnection[Any], identities: Collection[tuple[str, str]]
) -> dict[tuple[str, str], ImportStatus]:
    """Read the v2 status records of existing import processes, by supplier and external account number."""
    suppliers, externals = (list(names) for names in zip(*identities, strict=True))
    cursor = await connection.execute(_SELECT_STATUSES, (suppliers, externals), prepare=True)
    return {(supplier, external): status_of_row(*row) for supplier, external, *row in await cursor.fetchall()}


class ImportFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter and page of a list of a supplier's imports: status, code of the failure, position and limit."""

    status: str | None = None
    code: str | None = None
    is_problem: bool = False
    """True if `code` is the code of a problem of the import, False if it is the code of `latest_error`."""
    after: int = 0
    limit: int = 100


class ImportPage(msgspec.Struct, frozen=True):
    """Imports in order of creation; `next_after` is the parameter of the next page, None after the last."""

    imports: list[ListedImport]
    next_after: int | None


async def imports_page(connection: AsyncConnection[Any], supplier: str, filters: ImportFilter) -> ImportPage:
    """Read a page of a supplier's imports. The cost of a page does not grow with the number of imports."""
    conditions: LiteralString = STATUS_CONDITIONS[filters.status] if filters.status is not None else ""
    matches: LiteralString = "true"
    most = filters.limit + 1
    if filters.code is not None and filters.is_problem:
        conditions += " AND error_code IS NOT NULL"
        most, matches = _MAX_CANDIDATES, _HAS_PROBLEM
    elif filters.code is not None:
        conditions += " AND error_code = %(code)s"
    candidates = _candidates(conditions)
    parameters = {
        "supplier": supplier,
        "code": filters.code,
        "after": filters.after,
        "limit": filters.limit + 1,
        "candidates": most,
    }
    rows = await (await connection.execute(_select_page(candidates, matches), parameters)).fetchall()
    listed, next_after = [_listed(*row[:-1]) for row in rows[: filters.limit]], None
    if len(rows) > filters.limit:
        next_after = rows[filters.limit - 1][-1]
    elif most == _MAX_CANDIDATES:
        last = f"SELECT created_position FROM ({candidates}) AS s ORDER BY created_position DESC LIMIT 1"  # noqa: S608
        count = f"SELECT count(*), ({last}) FROM ({candidates}) AS s"  # noqa: S608 - constants
        row = await (await connection.execute(count, parameters)).fetchone()
        next_after = row[1] if row is not None and row[0] == most else None
    return ImportPage(listed, next_after)


def _listed(external: str, *columns: Any) -> ListedImport:
    return ListedImport(external_account_number=external, **msgspec.structs.asdict(status_of_row(*columns)))


def status_of_row(
    status: ImportState,
    account_number: str | None,
    created_at: datetime,
    modified_at: datetime,
    code: str | None,
    detail: str | None,
    domain: str | None,
    released_at: datetime | None = None,
) -> ImportStatus:
    """Return the v2 status record of these columns of `import_status`, with the time of the account's release."""
    error = LatestError(code=code, detail=detail or "", domain=domain or "") if code is not None else None
    return ImportStatus(
        status=status,
        service_identifier=account_number,
        created_at=created_at,
        modified_at=modified_at,
        latest_error=error,
        released_at=released_at or UNSET,
    )


def transfer_status(status: ImportStatus) -> TransferStatus:
    """Return the v1 status of the same import process."""
    return TransferStatus(
        status=_TRANSFER_STATES.get(status.status, "UNKNOWN"),
        service_account_number=status.service_identifier or "",
    )


_SELECT_LIST: LiteralString = f"""
SELECT external_account_number, account_number, account_created_at, created_position
FROM ({_candidates("")}) AS s
WHERE status = ANY(%(states)s)
ORDER BY created_position
LIMIT %(limit)s
"""  # noqa: S608 - constants
_SELECT_LAST_CANDIDATE = """
SELECT created_position
FROM import_status
WHERE supplier = %(supplier)s AND created_position > %(after)s
ORDER BY created_position
OFFSET %(candidates)s - 1 LIMIT 1
"""
_LIST_PAGE = 1_000


async def import_list(
    connection: AsyncConnection[Any], after: int, *, supplier: str, states: Collection[str]
) -> tuple[list[ImportListItem], int | None]:
    """Read the next imports of a supplier with one of the statuses, and the start of the next page; None at the end.

    The imports are in order of creation. A page examines a limited number of imports, so it may be empty before the
    end.
    """
    parameters = {"supplier": supplier, "states": list(states), "after": after, "limit": _LIST_PAGE}
    parameters["candidates"] = _MAX_CANDIDATES
    rows = await fetch_rows(connection, _SELECT_LIST, **parameters)
    items = [
        ImportListItem(external_account_number=external, service_account_number=number, account_created_at=at)
        for external, number, at, _ in rows
    ]
    if len(rows) == _LIST_PAGE:
        return items, rows[-1][3]
    last = await fetch_rows(connection, _SELECT_LAST_CANDIDATE, **parameters)
    return items, last[0][0] if last else None
