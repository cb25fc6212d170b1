"""Building blocks of tests: accounts, events, and given/when/then."""

import contextlib
import copy
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import msgspec

from eventstore.aggregates.import_process import (
    DryRunSucceeded,
    ImportCancelled,
    ImportErrored,
    ImportPostponed,
    ImportProcessed,
    ImportStaged,
    ImportStarted,
    StageImport,
    StartImport,
)
from importledger_client.book import one_account

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
LEASE_UNTIL = NOON + timedelta(minutes=1)
DIGEST = "a" * 64
OTHER_DIGEST = "b" * 64


def an_account(supplier: str = "NORDWIND", number: int = 1) -> dict[str, Any]:
    """A complete account that breaks no rule."""
    return one_account(supplier, number)


def changed(account: dict[str, Any], value: Any, *path: str | int) -> dict[str, Any]:
    """Return the account with one place changed; `...` as value removes the place. Unchanged parts are shared."""
    other: dict[str, Any] = _changed(account, value, path)
    return other


def _changed(place: Any, value: Any, path: tuple[str | int, ...]) -> Any:
    step, *further = path
    other = copy.copy(place)
    if further:
        other[step] = _changed(place[step], value, tuple(further))
    elif value is ...:
        del other[step]
    else:
        other[step] = value
    return other


def changed_where_there(account: Any, changes: Iterable[tuple[tuple[str | int, ...], Any]]) -> Any:
    """Return the account with these changes, except of places that an earlier change has removed."""
    for path, value in changes:
        with contextlib.suppress(KeyError, IndexError, TypeError):
            account = changed(account, value, *path)
    return account


def encoded(account: Any) -> bytes:
    return msgspec.json.encode(account)


def stage(digest: str = DIGEST, **fields: Any) -> StageImport:
    return StageImport(payload_sha256=digest, content_sha256=digest, payload_bytes=10, **fields)


def start(worker: int = 7, max_attempts: int = 5) -> StartImport:
    return StartImport(worker=worker, lease_until=LEASE_UNTIL, max_attempts=max_attempts)


def staged(digest: str = DIGEST, **fields: Any) -> ImportStaged:
    return ImportStaged(payload_sha256=digest, content_sha256=digest, payload_bytes=10, **fields)


def started(attempt: int = 1, worker: int = 7) -> ImportStarted:
    return ImportStarted(attempt=attempt, worker=worker, lease_until=LEASE_UNTIL)


def postponed(attempt: int = 1, due_at: datetime = NOON) -> ImportPostponed:
    return ImportPostponed(attempt=attempt, code="worker_lost", due_at=due_at)


def processed(number: str = "A-00000001", attempt: int = 1) -> ImportProcessed:
    return ImportProcessed(attempt=attempt, account_number=number, created_at=NOON)


def errored(attempt: int = 1) -> ImportErrored:
    return ImportErrored(attempt=attempt, code="account_failed_validation", detail="No.")


def dry_run_succeeded() -> DryRunSucceeded:
    return DryRunSucceeded(attempt=1)


def cancelled() -> ImportCancelled:
    return ImportCancelled(reason="duplicate")


def value_at(value: Any, path: tuple[str | int, ...]) -> Any:
    """Return the value at a path."""
    return reduce(lambda place, step: place[step], path, value)


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every path in a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for name, child in inner for place in places(child, (*path, name)))]
