"""The actor that reconciles runs: adds up a run in portions, while no import waits."""

import contextlib
import threading
import time
from collections.abc import Callable

import structlog

from eventstore.errors import StoreUnavailable, first_line
from eventstore.log.ledger import Ledger
from projections.queries.reconciliation import add_portion, claim, has_other_waiting, release
from projections.views.import_status import imports_wait
from redaction.text import message_of

CHECK_EVERY_S = 0.1
"""Interval between two checks for waiting imports [seconds]."""
JOB_S = 2.0
"""Time for a job while other jobs wait [seconds].

After this time, the job stops after a portion, and the sweeper sends it again.
"""
MAX_PAUSE_S = 15.0
"""Longest pause for imports between two portions [seconds], shorter than the job's lease."""

logger = structlog.get_logger()


class Reconciler:
    """Works on the jobs of messages. `worker` returns the number whose advisory lock this process holds."""

    def __init__(self, ledger: Ledger, *, worker: Callable[[], int], stop: threading.Event) -> None:
        self._ledger = ledger
        self._worker = worker
        self._stop = stop

    def work(self, jobs: list[str]) -> None:
        """Work on the jobs of a message until they end or the process stops. Never raises."""
        for job in jobs:
            try:
                self._reconcile(job, self._worker())
            except StoreUnavailable as error:
                logger.warning("reconciliation will be retried by the sweeper", job=job, reason=first_line(error))

    def _reconcile(self, job: str, worker: int) -> None:
        began, error = time.monotonic(), ""
        ends_at = began + JOB_S
        with self._ledger.connection() as connection:
            progress = claim(connection, job, worker)
        if progress is None:
            return
        try:
            while progress is not None and self._wait_for_imports():
                with self._ledger.connection() as connection, self._ledger.connection() as helper:
                    progress = add_portion(connection, progress, worker, helper)
                    if time.monotonic() >= ends_at and has_other_waiting(connection, job):
                        break
        except StoreUnavailable as unavailable:
            error = first_line(unavailable)
            raise
        except Exception as raised:  # other jobs continue
            logger.exception("reconciliation failed", job=job)
            error = message_of(raised)
        finally:
            with contextlib.suppress(StoreUnavailable), self._ledger.connection() as connection:
                release(connection, job, worker, error)
        is_done, duration_ms = progress is None and not error, round(1000 * (time.monotonic() - began))
        logger.info("reconciliation ended" if is_done else "reconciliation paused", job=job, duration_ms=duration_ms)

    def _wait_for_imports(self) -> bool:
        """Wait while imports wait, at most MAX_PAUSE_S. Return False if the process must end."""
        paused_until = time.monotonic() + MAX_PAUSE_S
        while not self._stop.is_set():
            with self._ledger.connection() as connection:
                if time.monotonic() > paused_until or not imports_wait(connection):
                    return True
            self._stop.wait(CHECK_EVERY_S)
        return False
