"""Doing parts of long jobs: one at a time, only while no import waits, each in one transaction with its result.

Who is killed in a part has written nothing: another worker takes it as soon as this one's lock is free. Who was late
for its lease finds out when it wants to finish, and everything it has done is undone.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import structlog
from psycopg import Connection

from discretion.shown import said_by
from eventstore.errors import StoreUnavailable, first_line
from eventstore.log.ledger import Ledger
from eventstore.log.long_jobs import (
    LEASE,
    JobPart,
    LongJob,
    finish_part,
    give_back_part,
    known_job,
    refuse_job,
    renew_part,
    take_part,
)
from projections.import_status import imports_wait
from projections.spreading.pieces import edition, read_piece
from workers.pieces import do_piece

LOOK_EVERY_S = 0.1
"""How often it is looked whether imports wait."""
MAX_PAUSE_S = 2.0
"""How long a part that has begun stands still for imports before it goes on a little: it holds a transaction."""
RENEW_EVERY_S = LEASE.total_seconds() / 4
_WITHOUT_LIMITS = (
    "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0"
)

logger = structlog.get_logger()


class Stopping(Exception):
    """This process is to end."""


class PartLost(Exception):
    """The part is another worker's by now."""


class PartWorker:
    """Does parts as they are rung for. `worker` gives the id whose advisory lock says that it lives."""

    def __init__(self, ledger: Ledger, *, worker: Callable[[], int], stop: threading.Event) -> None:
        self._ledger = ledger
        self._worker = worker
        self._stop = stop

    def work(self, names: list[str]) -> None:
        """Do these parts, or others of their jobs that are open; never raises."""
        for name in names:
            job, _, number = name.rpartition("/")
            try:
                self._work(job, int(number))
            except StoreUnavailable as error:
                logger.warning("part left to others", part=name, reason=first_line(error))

    def _work(self, name: str, number: int) -> None:
        with self._ledger.connection() as connection:
            job = known_job(connection, name)
            if job is None:
                return
            if job.edition != edition():
                refuse_job(connection, name, edition())
                logger.warning("long job refused", job=name, edition=job.edition, mine=edition())
                return
        if not self._wait_for_imports():
            return
        worker = self._worker()
        with self._ledger.connection() as connection:
            part = take_part(connection, name, number, worker)
        if part is not None:
            self._do(job, part, worker)

    def _do(self, job: LongJob, part: JobPart, worker: int) -> None:
        began = time.monotonic()
        try:
            with self._ledger.connection() as connection, connection.transaction():
                connection.execute(_WITHOUT_LIMITS)
                breath = Breath(self._ledger, part, worker, self._stop)
                result = do_piece(connection, read_piece(part.piece), job.upto, breath)
                if not finish_part(connection, part, worker, msgspec.json.encode(result).decode()):
                    raise PartLost
        except PartLost:
            logger.warning("part was taken over", job=job.job, part=part.number)
        except Stopping:
            self._give_back(part, worker)
        except StoreUnavailable as error:  # or a disk that is full: tried as often as everything else
            with contextlib.suppress(StoreUnavailable):
                self._give_back(part, worker, error=first_line(error))
            raise
        except Exception as error:  # whatever it is, it concerns this part, and others may have more luck
            logger.exception("part failed", job=job.job, part=part.number, attempt=part.attempt)
            self._give_back(part, worker, error=said_by(error))
        else:
            took_ms = round(1000 * (time.monotonic() - began))
            logger.info("part is done", job=job.job, part=part.number, duration_ms=took_ms)

    def _give_back(self, part: JobPart, worker: int, *, error: str = "") -> None:
        with self._ledger.connection() as connection:
            give_back_part(connection, part, worker, error=error, is_counted=bool(error))

    def _wait_for_imports(self) -> bool:
        """Return when no import waits; False when the process is to end."""
        while not self._stop.is_set():
            with self._ledger.connection() as connection:
                if not imports_wait(connection):
                    return True
            self._stop.wait(LOOK_EVERY_S)
        return False


class Breath:
    """Called between the steps of a part: lets imports go first, and keeps the lease. Raises Stopping, PartLost."""

    def __init__(self, ledger: Ledger, part: JobPart, worker: int, stop: threading.Event) -> None:
        self._ledger = ledger
        self._part = part
        self._worker = worker
        self._stop = stop
        self._renew_at = time.monotonic() + RENEW_EVERY_S

    def __call__(self) -> None:
        paused_until = time.monotonic() + MAX_PAUSE_S
        with self._ledger.connection() as connection:
            while True:
                if self._stop.is_set():
                    raise Stopping
                if time.monotonic() > self._renew_at:
                    self._renew(connection)
                if time.monotonic() > paused_until or not imports_wait(connection):
                    return
                self._stop.wait(LOOK_EVERY_S)

    def _renew(self, connection: Connection[Any]) -> None:
        if not renew_part(connection, self._part, self._worker):
            raise PartLost
        self._renew_at = time.monotonic() + RENEW_EVERY_S
