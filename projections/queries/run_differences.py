"""Accounts of a run that differ from the accounts of their source, and the side that agrees with the log.

A source sends digests of its accounts, and later digests of the paths in accounts that differ. Equal digests prove
equal content. Different digests may be caused by spelling, for instance 0.5 and 0.50, so that the paths decide.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from psycopg import Connection
from psycopg.sql import SQL, Identifier

from eventstore.aggregates.import_process import ImportProcessed, ImportStaged, stream_of
from eventstore.log.copy_format import SIGNATURE, TRAILER
from eventstore.log.ledger import Ledger
from eventstore.log.rows import rows_of
from projections.platform.change import platform_change
from projections.platform.content import account_contents
from projections.platform.paths import PATH_COLUMNS, Value, account_values, path_digest
from projections.platform.tables import ACCOUNT_TABLE, primary_key, table_columns
from projections.queries.account_comparison import shown_text
from redaction.masking import is_harmless
from schemas.reading.problems import truncated
from schemas.run import AccountDifference, PathDifference, PlatformValue, SourceAccount, SourceContent

MOST_VALUES = 20
"""Values of a path in an answer. Further values are left out."""
MOST_DETAILED = 10
"""Accounts that a request may send with paths. Each such account needs fifty queries."""
MOST_CHECKED = 200
"""Accounts whose rows are compared with the log for one page.

Each such account needs its payload and fifteen queries.
"""
MOST_IN_BUCKETS = 20_000
"""Accounts of the run in the buckets of a request."""
STATEMENT_TIMEOUT = "2s"
"""Time limit of a statement, a little longer than the time that a request waits for its answer."""
_MOST_LETTERS = 200
"""Most characters of a value in an answer. Longer values are cut."""
_COLUMNS = {column.path: column for column in PATH_COLUMNS}

_SELECT_IN_BUCKETS = """
SELECT a.external_account_number, s.account_number, s.status
FROM import_run_account AS a JOIN import_status AS s USING (supplier, external_account_number)
WHERE a.supplier = %(supplier)s AND a.run = %(run)s
  AND left(encode(sha256(convert_to(a.external_account_number, 'UTF8')), 'hex'), 3) = ANY(%(buckets)s)
LIMIT %(limit)s
"""
_SELECT_NAMED = """
SELECT a.external_account_number, s.account_number, s.status
FROM import_run_account AS a JOIN import_status AS s USING (supplier, external_account_number)
WHERE a.supplier = %(supplier)s AND a.run = %(run)s AND a.external_account_number = ANY(%(externals)s)
"""


class TooManyInBuckets(Exception):
    """The buckets of a request have more than MOST_IN_BUCKETS accounts."""


def run_differences(
    ledger: Ledger, supplier: str, run: str, source: SourceContent, *, is_masked: bool
) -> list[AccountDifference]:
    """Return the accounts that differ, sorted by number, among the accounts that `source` names and the accounts in its
    buckets.
    """
    sent = {account.external_account_number: account for account in source.accounts}
    with _timed_connection(ledger) as connection:
        parameters: dict[str, Any] = {"supplier": supplier, "run": run}
        imports = rows_of(connection, _SELECT_NAMED, **parameters, externals=list(sent))
        if source.buckets:
            parameters |= {"buckets": list(source.buckets), "limit": MOST_IN_BUCKETS + 1}
            imports += rows_of(connection, _SELECT_IN_BUCKETS, **parameters)
            if len(imports) > MOST_IN_BUCKETS:
                raise TooManyInBuckets
        known = {external: (number, status) for external, number, status in imports}
        digests = account_contents(connection, [number for number, _ in known.values() if number is not None]).digests
    differences = []
    for external in sorted({*sent, *known}):
        number, status = known.get(external, (None, None))
        digest, ours = digests.get(number or ""), sent.get(external)
        if (digest is None) if ours is None else (digest is not None and f"{digest:016x}" == ours.digest):
            continue
        difference = AccountDifference(
            external_account_number=external,
            kind="missing" if digest is None else "additional" if ours is None else "different",
            digest="",
            service_identifier=number,
            status=status,
            is_erased=number in digests and digest is None,
            is_as_logged=False if status == "PROCESSED" and number not in digests else None,
        )
        if ours is not None and ours.paths and digest is not None and number is not None:
            difference = _with_paths(ledger, supplier, difference, ours, number, f"{digest:016x}", is_masked=is_masked)
        differences.append(difference)
    return differences


@contextmanager
def _timed_connection(ledger: Ledger) -> Iterator[Connection[Any]]:
    """Yield a connection whose statements end soon after the request has given up. Raises StoreUnavailable."""
    with ledger.connection() as connection, connection.transaction():
        connection.execute(f"SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT}'")
        yield connection


def _with_paths(
    ledger: Ledger,
    supplier: str,
    difference: AccountDifference,
    ours: SourceAccount,
    number: str,
    digest: str,
    *,
    is_masked: bool,
) -> AccountDifference:
    """Return the difference with its paths and with the side that agrees with the log.

    The difference has the account's digest only if no path differs: with the digest, somebody who knows all other
    values could find a masked value.
    """
    external = difference.external_account_number
    with _timed_connection(ledger) as connection:
        values = account_values(connection, number)
    digests = {path: path_digest(external, of_path) for path, of_path in values.items()}
    source = {sent.path: sent.digest for sent in ours.paths}
    paths = tuple(
        PathDifference(
            path=path,
            stored=_COLUMNS[path].stored if path in _COLUMNS else "",
            is_personal=not is_harmless(path.split(".")),
            values=tuple(
                PlatformValue(
                    row=value.ordinal,
                    digest=_value_digest(path, external, value, is_masked=is_masked),
                    value=truncated(shown_text(path, value.text, is_masked=is_masked), _MOST_LETTERS),
                )
                for value in values.get(path, ())[:MOST_VALUES]
            ),
        )
        for path in sorted({*source, *digests})
        if source.get(path) != digests.get(path)
    )
    return AccountDifference(
        external_account_number=external,
        kind=difference.kind,
        digest="" if paths else digest,
        service_identifier=number,
        status=difference.status,
        is_as_logged=is_as_logged(ledger, stream_of(supplier, external), number),
        paths=paths,
    )


def _value_digest(path: str, external: str, value: Value, *, is_masked: bool) -> str:
    """Return the digest of a value; "" for a masked value, because somebody could find a birth date by trying all
    dates.
    """
    is_hidden = is_masked and value.text and not is_harmless(path.split("."))
    return "" if is_hidden else path_digest(external, [value])


def altered_accounts(ledger: Ledger, supplier: str, run: str, buckets: Sequence[str]) -> list[str]:
    """Return the accounts among the first MOST_CHECKED of the buckets whose rows differ from the rows that the log
    makes.
    """
    with ledger.connection() as connection:
        parameters = {"supplier": supplier, "run": run, "buckets": list(buckets), "limit": MOST_CHECKED}
        imports = rows_of(connection, _SELECT_IN_BUCKETS, **parameters)
    return sorted(
        external
        for external, number, status in imports
        if status == "PROCESSED" and is_as_logged(ledger, stream_of(supplier, external), number) is False
    )


def is_as_logged(ledger: Ledger, stream: str, account_number: str) -> bool | None:
    """Return whether the account's rows equal the rows that the log makes, so that healing would change nothing.

    None if the log cannot make the rows, because the payload was archived or erased, or an event is unreadable.
    """
    staged, processed = None, None
    for recorded in ledger.history(stream):
        if isinstance(recorded.event, ImportStaged) and processed is None:
            staged = recorded.event
        elif isinstance(recorded.event, ImportProcessed) and recorded.event.account_number == account_number:
            processed = recorded
    if staged is None or processed is None:
        return None
    body = ledger.payloads({stream: staged.payload_sha256}).get(stream)
    change = None if body is None else platform_change(processed, body)
    if change is None:
        return None
    with ledger.connection() as connection:
        return _has_rows(connection, account_number, change.copied)


def _has_rows(connection: Connection[Any], account_number: str, expected: Mapping[str, Sequence[bytes]]) -> bool:
    """Return whether the account has exactly these rows in the format of COPY."""
    for table in ACCOUNT_TABLE.all():
        copying = SQL(
            "COPY (SELECT {} FROM {} WHERE account_number = %s ORDER BY {}) TO STDOUT (FORMAT BINARY)"
        ).format(
            SQL(", ").join(Identifier(name) for name, _ in table_columns(table)),
            Identifier("platform", table.name),
            SQL(", ").join(map(Identifier, primary_key(table))),
        )
        with connection.cursor() as cursor, cursor.copy(copying, (account_number,)) as copy:
            present = b"".join(bytes(part) for part in copy)
        if present != b"".join((SIGNATURE, *expected.get(table.name, ()), TRAILER)):
            return False
    return True
