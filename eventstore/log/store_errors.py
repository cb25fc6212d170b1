"""Classification of the database driver's errors: store unavailable, conflict, or an error that the stored content
causes.
The driver's own classes are not enough: a deadlock and a value too long for an index are both OperationalErrors, and a
read-only file system is a missing privilege.
"""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

import psycopg
from psycopg.errors import (
    DeadlockDetected,
    DiskFull,
    InsufficientPrivilege,
    ReadOnlySqlTransaction,
    SerializationFailure,
)
from psycopg_pool import PoolClosed, PoolTimeout

from eventstore.errors import IntakeStopped, NotCompared, StoreUnavailable, VersionConflict
from eventstore.log.connecting import last_connection_error, note_switchover
from eventstore.log.intake_stop import NOT_COMPARED, STOPPED

VERSION_CONFLICT = "LG001"
ROLLED_BACK = (DeadlockDetected, SerializationFailure)
"""Errors after which nothing was stored, so that the same transaction may be tried again immediately."""

_CONTENT = "54"
"""SQLSTATE class of values that are too large or too deep. Trying again fails, too."""
_SERVER_BROKEN = "XX"
"""SQLSTATE class of internal errors: damaged pages, and failed system calls without a separate code."""
_ENDING = frozenset({"FATAL", "PANIC"})
"""Severities with which a session or the whole server ends, whatever the error code is."""
_FILES = frozenset(
    {"buffile.c", "copydir.c", "dsm_impl.c", "fd.c", "fileset.c", "md.c", "relcache.c", "relmapper.c", "slru.c"}
    | {"storage.c", "twophase.c", "xlog.c", "xlogutils.c"}
)
"""Source files of Postgres that access files.

Their errors about a read-only file system have the code of a missing right.
"""


FULL_S = 10.0
"""Time for which a database counts as full after it has reported so, in seconds."""


_NO_SPACE = os.strerror(errno.ENOSPC)
"""Text with which Postgres refuses a new connection while its disk is full. Such an error has no SQLSTATE."""


class _Full:
    at = -inf
    """Time at which the database last reported a full disk, by the monotonic clock."""


def is_disk_full() -> bool:
    """Return whether the database has reported a full disk within the last FULL_S."""
    return time.monotonic() - _Full.at < FULL_S


def is_unavailable(error: psycopg.Error) -> bool:
    """Return whether the server is not available or cannot write, so that a repeated request may succeed."""
    state, diagnosis = error.sqlstate or "", error.diag
    if diagnosis.severity_nonlocalized in _ENDING or state.startswith(_SERVER_BROKEN):
        return True
    if isinstance(error, InsufficientPrivilege):
        return diagnosis.source_file in _FILES
    is_passing = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | ReadOnlySqlTransaction)
    return is_passing and not state.startswith(_CONTENT)


def _reason(error: psycopg.Error) -> str:
    """Return why the store is unavailable. A pool reports only that it had no connection in time."""
    if isinstance(error, PoolClosed):
        return "the log is not open"
    return (last_connection_error() if isinstance(error, PoolTimeout) else None) or str(error)


@contextmanager
def store_errors() -> Iterator[None]:
    """Translate the driver's errors in the block to StoreUnavailable, IntakeStopped, NotCompared or VersionConflict.

    Other errors are raised unchanged.
    """
    try:
        yield
    except psycopg.Error as error:
        note_switchover(error)
        if error.sqlstate == VERSION_CONFLICT:
            numbers = (error.diag.message_detail or "").split(",")
            raise VersionConflict(numbers=[int(number) for number in numbers if number]) from error
        if error.sqlstate == STOPPED:
            raise IntakeStopped("intake is stopped") from error
        if error.sqlstate == NOT_COMPARED:
            raise NotCompared("the log was not compared with its checkpoints yet") from error
        reason = _reason(error)
        if isinstance(error, DiskFull) or _NO_SPACE in reason:
            _Full.at = time.monotonic()
        if is_unavailable(error):
            raise StoreUnavailable(reason) from error
        raise
