"""Releases of a supplier's accounts. Table `account_release`; written in the append's transaction.

A release has one row, for any number of accounts. `RELEASED_AT` finds the release of an account: the first release
after the account was processed that includes the account. While a supplier is complete, its accounts are released at
once.
"""

from datetime import datetime
from typing import Any, LiteralString

from psycopg import AsyncConnection

from eventstore.aggregates.supplier import SUPPLIER, AccountsReleased, SupplierStatusChanged
from eventstore.events import Recorded
from eventstore.log.rows import fetch_rows
from eventstore.operations.rights import Rights
from projections.versions.view import Values, View

RELEASE, COMPLETE, REOPENED = "release", "complete", "reopened"
"""Kinds of rows: a release, the beginning of the status complete, and its end."""


def _release(event: AccountsReleased, recorded: Recorded) -> Values:
    return {"version": recorded.version, "kind": RELEASE, "run": event.run}


def _status(event: SupplierStatusChanged, recorded: Recorded) -> Values | None:
    if event.status != "complete" and not event.ends_complete:
        return None
    return {"version": recorded.version, "kind": COMPLETE if event.status == "complete" else REOPENED, "run": ""}


ACCOUNT_RELEASE = View(
    "account_release",
    "supplier text NOT NULL, version integer NOT NULL, kind text NOT NULL, run text NOT NULL,"
    " released_at timestamptz NOT NULL, position bigint NOT NULL",
    {AccountsReleased: _release, SupplierStatusChanged: _status},
    prefix=SUPPLIER.prefix,
    named=("supplier",),
    key=("supplier", "version"),
    times=("released_at",),
    folds_all=True,
    rights=Rights(api="SIU"),
)

_IS_COMPLETE: LiteralString = """(
        SELECT c.kind = 'complete' FROM account_release AS c
        WHERE c.supplier = s.supplier AND c.kind <> 'release' AND c.position < s.position
        ORDER BY c.position DESC
        LIMIT 1
    )"""


def _released_at(bound: LiteralString) -> LiteralString:
    return f"""CASE
    WHEN s.status <> 'PROCESSED' THEN NULL
    WHEN {_IS_COMPLETE} THEN s.account_created_at
    ELSE (
        SELECT min(r.released_at) FROM account_release AS r
        WHERE r.supplier = s.supplier AND r.position > s.position
          AND {bound} AND (r.run = '' OR EXISTS (
              SELECT FROM import_run_account AS m
              WHERE m.supplier = s.supplier AND m.external_account_number = s.external_account_number
                AND m.run = r.run AND m.position < r.position))
    )
END"""  # noqa: S608 - constants


RELEASED_AT: LiteralString = _released_at("true")
"""SQL expression of a row `s` of `import_status`: time of the account's release, NULL if it is not released.

An account that is processed while its supplier is complete is released at its creation.
"""

_SELECT_OF_RUN: LiteralString = f"""
SELECT CASE WHEN {_IS_COMPLETE} THEN s.account_created_at ELSE (
    SELECT min(r.released_at) FROM account_release AS r
    WHERE r.supplier = s.supplier AND r.run IN ('', %(run)s) AND r.position > s.position
) END
FROM (
    SELECT s.supplier, s.position, s.account_created_at
    FROM import_run_account AS m
    JOIN import_status AS s USING (supplier, external_account_number)
    WHERE m.supplier = %(supplier)s AND m.run = %(run)s AND s.status = 'PROCESSED'
    ORDER BY s.position DESC
    LIMIT 1
) AS s
"""  # noqa: S608 - constants
_HAS_RELEASES: LiteralString = "SELECT FROM account_release WHERE supplier = %s LIMIT 1"
_SELECT_OF_ACCOUNT: LiteralString = f"""
SELECT {RELEASED_AT} FROM import_status AS s WHERE s.supplier = %s AND s.external_account_number = %s
"""  # noqa: S608 - constants


_SELECT_THEN: LiteralString = f"""
SELECT {_released_at("r.position <= %(upto)s")}
FROM (VALUES (%(supplier)s::text, %(external)s::text, 'PROCESSED', %(position)s::bigint, %(created_at)s::timestamptz))
    AS s (supplier, external_account_number, status, position, account_created_at)
"""  # noqa: S608 - constants


async def run_released_at(connection: AsyncConnection[Any], supplier: str, run: str) -> Any:
    """Return the time at which the last accounts of the run were released; None if an account is not released."""
    if not await fetch_rows(connection, _HAS_RELEASES, supplier):
        return None
    [(released_at,)] = await fetch_rows(connection, _SELECT_OF_RUN, supplier=supplier, run=run) or [(None,)]
    return released_at


async def account_released_at(connection: AsyncConnection[Any], supplier: str, external: str) -> Any:
    """Return the time at which the account was released; None if it is not released."""
    [(released_at,)] = await fetch_rows(connection, _SELECT_OF_ACCOUNT, supplier, external) or [(None,)]
    return released_at


async def released_then(
    connection: AsyncConnection[Any], supplier: str, external: str, *, position: int, created_at: datetime, upto: int
) -> Any:
    """Return the time at which an account, processed at this position, was released up to a position of the log."""
    wanted = {"supplier": supplier, "external": external, "position": position, "created_at": created_at, "upto": upto}
    [(released_at,)] = await fetch_rows(connection, _SELECT_THEN, **wanted)
    return released_at
