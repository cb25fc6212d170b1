"""Accounts of a run from which a sample is drawn.

An account is drawn by the position of its newest staging up to a checkpoint, because positions never change.
"""

from decimal import Decimal
from typing import Any

from psycopg import Connection

from eventstore.log.rows import rows_of
from projections.queries.history import read_statuses

_SELECT_STAGED = """
SELECT staged.position, a.external_account_number
FROM import_run_account AS a CROSS JOIN LATERAL (
    SELECT position
    FROM events AS e
    WHERE e.stream = 'import/' || a.supplier || '/' || a.external_account_number AND e.topic = 'import_staged.v1'
      AND e.position <= %(upto)s
    ORDER BY version DESC
    LIMIT 1
) AS staged
WHERE a.supplier = %(supplier)s AND a.run = %(run)s AND a.position <= %(upto)s
ORDER BY staged.position
"""
_SELECT_BALANCES = """
SELECT s.external_account_number, t.transfer_balance
FROM import_run_account AS a
JOIN import_status AS s USING (supplier, external_account_number)
JOIN platform.service_account AS t ON t.account_number = s.account_number
WHERE a.supplier = %(supplier)s AND a.run = %(run)s
"""
_BANDS = {0: "0", 100: "0-100", 1_000: "100-1000", 10_000: "1000-10000"}
"""Names of bands of balances in euros without sign, by the largest balance of each band."""


def staged_accounts(connection: Connection[Any], supplier: str, run: str, upto: int) -> dict[int, str]:
    """Return the external numbers of a run's accounts up to a position, by the position of their staging."""
    return dict(rows_of(connection, _SELECT_STAGED, supplier=supplier, run=run, upto=upto))


def strata_of(connection: Connection[Any], supplier: str, run: str, upto: int, stratify: str | None) -> dict[str, str]:
    """Return the strata of accounts by external number.

    `stratify` is `status` (as of the position), `balance` (band of the transfer balance now) or None for no strata.
    """
    match stratify:
        case "status":
            return read_statuses(connection, supplier, upto)
        case "balance":
            rows = rows_of(connection, _SELECT_BALANCES, supplier=supplier, run=run)
            return {external: _band(balance) for external, balance in rows}
    return {}


def _band(balance: Decimal | None) -> str:
    if balance is None:
        return "-"
    return next((name for limit, name in _BANDS.items() if abs(balance) <= limit), "10000-")
