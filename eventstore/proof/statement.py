"""Statements that the ledger signs: certificates, as JSON objects that name the log's newest checkpoint.

A signature proves that this installation made the statement when its log was as in the checkpoint. The signature does
not prove that the statement is true: the caller must check this before.

Only the sealer has the signing key. `signed_statement` writes the request into the table `statement_requests`. The
sealer seals the log, signs, and writes the answer into the row of the request.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
from psycopg import Connection

from eventstore.clock import now
from eventstore.errors import LedgerError, StoreUnavailable
from eventstore.log.authority import AuthorityKey
from eventstore.log.ledger import Ledger
from eventstore.log.rows import rows_of, structs_of
from eventstore.proof.checkpoints import LogKey, is_signed
from eventstore.proof.verifier import Checkpoint, Invalid, statement_text
from eventstore.proof.verifier import check_statement as check_signed

RESERVED = ("signed_at", "checkpoint", "verifier_key", "signature")
"""Members that a signature adds to a statement."""

ANSWER_TIMEOUT_S = 10.0
"""Longest wait for the sealer [seconds]. After this wait, StoreUnavailable is raised."""
_POLL_S = 0.1

MAX_AGE = timedelta(minutes=10)
"""Age up to which requests are signed. Older requests are refused and deleted."""

_STATEMENT = "statement"
_INSERT = "INSERT INTO statement_requests (id, body, requested_at, mac) VALUES (%s, %s, %s, %s)"
_TAKE = """
DELETE FROM statement_requests
WHERE id = %s AND (signed IS NOT NULL OR refusal IS NOT NULL OR %s)
RETURNING signed, refusal
"""
_SELECT_WAITING = """
SELECT id, body, requested_at, mac
FROM statement_requests
WHERE signed IS NULL AND refusal IS NULL
ORDER BY requested_at
LIMIT 100
"""
_UPDATE = "UPDATE statement_requests SET signed = %s, refusal = %s WHERE id = %s"
_FORGET = "DELETE FROM statement_requests WHERE requested_at < clock_timestamp() - %s"


class WaitingStatement(msgspec.Struct, frozen=True):
    """Request for the signature of a statement. `body` is JSON, `mac` the MAC of the api over the other fields."""

    id: UUID
    body: str
    requested_at: datetime
    mac: str


class StatementRefused(LedgerError):
    """The sealer has refused to sign the statement; the message is its reason."""


def sign_statement(body: Mapping[str, Any], key: LogKey, checkpoint: str, *, at: datetime) -> dict[str, Any]:
    """Return the body with the members `signed_at`, `checkpoint` (a signed note), `verifier_key` and `signature`.

    Raises ValueError if the body is not a JSON object, has a member with one of these names, or contains a float:
    decimals must be text.
    """
    plain = msgspec.to_builtins(body, str_keys=True)
    if not isinstance(plain, dict) or any(name in plain for name in RESERVED):
        raise ValueError(f"A statement must be an object without {', '.join(RESERVED)}.")
    if _has_float(plain):
        raise ValueError("A statement must not have floats: write decimals as text.")
    statement: dict[str, Any] = plain | {
        "signed_at": f"{at:%Y-%m-%dT%H:%M:%SZ}",
        "checkpoint": checkpoint,
        "verifier_key": key.verifier,
    }
    return statement | {"signature": key.signature(statement_text(statement))}


def check_statement(statement: str | Mapping[str, Any], keys: Sequence[str]) -> Checkpoint:
    """Return the checkpoint of a statement that one of the verifier keys has signed. Raises Invalid."""
    text = statement if isinstance(statement, str) else msgspec.json.encode(statement).decode()
    refusal = Invalid("there is no key to check the certificate with")
    for key in keys:
        try:
            return check_signed(text, key, verify=is_signed)[1]
        except Invalid as error:
            refusal = error
    raise refusal


async def signed_statement(
    ledger: Ledger, authority: AuthorityKey, body: Mapping[str, Any], *, within_s: float = ANSWER_TIMEOUT_S
) -> dict[str, Any]:
    """Return the statement signed by the sealer, with a checkpoint of everything that is in the log now.

    For the event loop of an api process. Raises ValueError as `sign_statement` does, StatementRefused, and
    StoreUnavailable if no sealer answers in time.
    """
    if _has_float(body) or any(name in body for name in RESERVED):
        raise ValueError("A statement must have no floats and none of the members that signing adds.")
    request = uuid4()
    deadline = time.monotonic() + within_s
    await asyncio.to_thread(_store_request, ledger, authority, request, msgspec.json.encode(body).decode())
    while True:
        await asyncio.sleep(_POLL_S)
        is_last = time.monotonic() > deadline
        answer = await asyncio.to_thread(_take_answer, ledger, request, is_last=is_last)
        if answer is not None and answer[0] is not None:
            return dict(msgspec.json.decode(answer[0]))
        if answer is not None and answer[1] is not None:
            raise StatementRefused(answer[1])
        if is_last:
            raise StoreUnavailable("no sealer answers: is a relay running?")


def waiting_statements(connection: Connection[Any]) -> list[WaitingStatement]:
    """Return the requests to sign, oldest first."""
    return structs_of(connection, WaitingStatement, _SELECT_WAITING)


def sign_waiting(
    connection: Connection[Any],
    waiting: Sequence[WaitingStatement],
    key: LogKey,
    authority: AuthorityKey,
    checkpoint: str,
    *,
    at: datetime,
) -> None:
    """Sign waiting requests with a checkpoint that is newer than the requests, and delete old requests.

    A request is signed only if it is recent and has a MAC of the api: an older request could be a copy.
    """
    for request in waiting:
        is_authentic = authority.is_mac(request.mac, _STATEMENT, str(request.id), request.body, request.requested_at)
        if not is_authentic or abs(at - request.requested_at) > MAX_AGE:
            connection.execute(_UPDATE, (None, "The request must have a MAC of the api.", request.id))
            continue
        try:
            body = msgspec.json.decode(request.body)
            signed = msgspec.json.encode(sign_statement(body, key, checkpoint, at=at)).decode()
            connection.execute(_UPDATE, (signed, None, request.id))
        except (ValueError, TypeError) as error:
            connection.execute(_UPDATE, (None, f"The statement cannot be signed: {error}", request.id))
    connection.execute(_FORGET, (MAX_AGE,))


def refuse_waiting(connection: Connection[Any], waiting: Sequence[WaitingStatement], reason: str) -> None:
    """Store the reason of a refusal with each of these requests."""
    for request in waiting:
        connection.execute(_UPDATE, (None, reason, request.id))


def _store_request(ledger: Ledger, authority: AuthorityKey, request: UUID, body: str) -> None:
    at = now()
    mac = authority.mac(_STATEMENT, str(request), body, at)
    with ledger.connection() as connection:
        connection.execute(_INSERT, (request, body, at, mac))


def _take_answer(ledger: Ledger, request: UUID, *, is_last: bool) -> tuple[str | None, str | None] | None:
    with ledger.connection() as connection:
        return next(iter(rows_of(connection, _TAKE, request, is_last)), None)


def _has_float(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_float, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_float, value))
    return isinstance(value, float)
