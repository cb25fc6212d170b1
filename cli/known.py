"""Lookups by name or id for the verbs: suppliers and imports, with similar spellings, and typed reasons."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from psycopg import Connection

from cli.addresses import answer_of
from cli.language import _
from eventstore.aggregates import import_process, supplier
from eventstore.errors import OperatorError
from eventstore.log.ledger import Ledger
from eventstore.log.rows import rows_of
from projections.auxiliary.typed_reasons import is_reason_id, texts_of
from projections.retention.reverting import wait_for_runs

_SELECT_EVENT = "SELECT FROM events WHERE stream = %s AND version = 1"
_SELECT_SUPPLIERS = "SELECT code FROM import_supplier ORDER BY code"
_SELECT_RUNS = "SELECT run FROM import_run WHERE supplier = %s ORDER BY run"
_SELECT_ALIKE = """
SELECT external_account_number FROM import_status
WHERE supplier = %s AND lower(external_account_number) = lower(%s)
ORDER BY external_account_number
LIMIT 1
"""


class NotFound(OperatorError):
    """A supplier, import, run or stream of this name does not exist."""


def require_supplier(connection: Connection[Any], code: str) -> None:
    """Raise NotFound if no supplier has this code."""
    if connection.execute(_SELECT_EVENT, (supplier.stream_of(code),)).rowcount:
        return
    codes = [name for (name,) in rows_of(connection, _SELECT_SUPPLIERS)]
    raise NotFound(_("There is no import supplier {code}{hint}.", code=code, hint=suggestion(code, codes)))


def require_import(connection: Connection[Any], code: str, external: str) -> None:
    """Raise NotFound if the supplier is unknown, or has no import of this external account number."""
    if connection.execute(_SELECT_EVENT, (import_process.stream_of(code, external),)).rowcount:
        return
    require_supplier(connection, code)
    similar = [name for (name,) in rows_of(connection, _SELECT_ALIKE, code, external)]
    hint = suggestion(external, similar)
    raise NotFound(_("There is no import of {external} for {code}{hint}.", external=external, code=code, hint=hint))


def require_known(ledger: Ledger, code: str, external: str | None = None, run: str = "") -> None:
    """Raise NotFound if the supplier, its import or its run does not exist. Raises RunsBehind."""
    with ledger.connection() as connection:
        if external is None:
            require_supplier(connection, code)
        else:
            require_import(connection, code, external)
        if run:
            require_run(connection, code, run)


def require_run(connection: Connection[Any], code: str, run: str) -> None:
    """Wait until the lists of runs include all events. Raise NotFound if the supplier or its run is unknown.

    Raises RunsBehind.
    """
    require_supplier(connection, code)
    wait_for_runs(connection)
    runs = [name for (name,) in rows_of(connection, _SELECT_RUNS, code)]
    if run not in runs:
        raise NotFound(_("There is no run {run} of {code}{hint}.", run=run, code=code, hint=suggestion(run, runs)))


def require_stream(connection: Connection[Any], stream: str) -> None:
    """Raise NotFound if the stream has no event."""
    if not connection.execute(_SELECT_EVENT, (stream,)).rowcount:
        raise NotFound(_("There is no event of {stream}.", stream=stream))


def suggestion(typed: str, present: Iterable[str]) -> str:
    """Return `, but there is X` if a name is similar or differs only in case, else ""."""
    original_case = {name.lower(): name for name in present}
    matches = get_close_matches(typed.lower(), original_case, n=1, cutoff=0.8)
    return _(", but there is {name}", name=original_case[matches[0]]) if matches else ""


def reason_texts(reasons: Iterable[str]) -> dict[str, str]:
    """Return the text of each reason, also of a reason that the event stores as an id; "" for an erased reason."""
    reason_ids = set(reasons)
    return (
        answer_of(texts_of, reason_ids)
        if any(map(is_reason_id, reason_ids))
        else {reason: reason for reason in reason_ids}
    )
