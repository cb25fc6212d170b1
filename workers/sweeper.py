"""The sweeper: rings again for what is due and nobody works on, whatever the reason.

Lost messages, a flushed Redis, dead and hanging workers, schedule windows and postponed imports are one case to it.
An import that was tried before is rung alone, so that one which kills its worker does not take others with it.
"""

import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import structlog
from psycopg import Connection

from eventstore.aggregates import customer_mail
from eventstore.aggregates.import_process import PostponeImport, stream_of
from eventstore.clock import now
from eventstore.errors import StoreUnavailable
from eventstore.log import locks
from eventstore.log.ledger import Ledger
from eventstore.log.refused_attempts import delete_old_attempts
from projections.customer_mail import SELECT_ABANDONED_MAILS, SELECT_WAITING_MAILS
from projections.reconciliation import waiting_jobs
from telemetry.supervision import supervision
from workers.backoff import backoff
from workers.broker import MAILS, MAILS_PER_MESSAGE, RECONCILIATIONS, STREAMS_PER_MESSAGE, BellUnavailable, Doorbell
from workers.leader import ends_work

INTERVAL_S = 1.0
RING_AGAIN_AFTER_S = 10.0
LOST_AFTER = timedelta(seconds=2)
LIMIT = 1_000
FORGET_EVERY_S = 600.0
"""How often refused attempts are deleted that are too old or too many."""

_SELECT_ABANDONED = """
SELECT supplier, external_account_number, version, attempt, lease_until < statement_timestamp() AS is_expired,
       statement_timestamp() AS at
FROM import_status
WHERE status = 'IN_PROGRESS'
  AND (lease_until < statement_timestamp()
       OR NOT EXISTS (
           SELECT FROM pg_locks
           WHERE locktype = 'advisory' AND classid = %(lock_class)s::bigint::oid AND objid::bigint = worker AND granted
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())))
ORDER BY modified_at
LIMIT %(limit)s
"""

_SELECT_WAITING = """
SELECT supplier, external_account_number, attempt
FROM import_status
WHERE status = 'PENDING' AND position <= %(relayed)s
  AND ((due_at IS NULL AND modified_at < statement_timestamp() - %(lost_after)s) OR due_at <= statement_timestamp())
  AND NOT EXISTS (SELECT FROM import_supplier AS s WHERE s.code = supplier AND s.status = 'paused')
ORDER BY modified_at
LIMIT %(limit)s
"""
"""Leaves the imports of paused suppliers out. When a supplier is ongoing again, this finds all that has waited."""

logger = structlog.get_logger()


class Sweeper:
    """Lives inside the active relay, so there is one. Remembers what it rang for, and when."""

    def __init__(self, ledger: Ledger, doorbell: Doorbell) -> None:
        self._ledger = ledger
        self._doorbell = doorbell
        self._next = 0.0
        self._rung: dict[str, float] = {}
        self._forget_at = 0.0

    def sweep_when_due(self, connection: Connection[Any], relayed: int) -> None:
        """Sweep once a second. `relayed` is the position up to which the relay has rung."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + INTERVAL_S
            self.sweep(connection, relayed)

    def sweep(self, connection: Connection[Any], relayed: int) -> None:
        """Give abandoned imports back, then ring for all that is due. A step that fails leaves the others."""
        passes = ends_work(connection, StoreUnavailable, BellUnavailable)
        steps: dict[str, Callable[[], None]] = {
            "abandoned imports": partial(self._give_back_abandoned, connection),
            "abandoned e-mails": partial(self._give_up_abandoned_mails, connection),
            "waiting imports": partial(self._ring_for_waiting, connection, relayed),
            "waiting e-mails": partial(self._ring_for_mails, connection, relayed),
            "reconciliations": partial(self._ring_for_reconciliations, connection),
            "refused attempts": partial(self._forget_attempts, connection),
        }
        for name, step in steps.items():
            with supervision.part(f"sweeper of {name}", passes=passes):
                step()

    def _forget_attempts(self, connection: Connection[Any]) -> None:
        if time.monotonic() >= self._forget_at:
            self._forget_at = time.monotonic() + FORGET_EVERY_S
            delete_old_attempts(connection, now())

    def _give_back_abandoned(self, connection: Connection[Any]) -> None:
        """Those of workers that are gone are rung for at once: no message names them any more, however many wait."""
        parameters = {"lock_class": locks.WORKERS, "limit": LIMIT}
        commands = {}
        at_once = []
        for row in connection.execute(_SELECT_ABANDONED, parameters):
            code = "lease_expired" if row["is_expired"] else "worker_lost"
            due_at = row["at"] + backoff(row["attempt"]) if row["is_expired"] else row["at"]
            stream = stream_of(row["supplier"], row["external_account_number"])
            commands[stream] = PostponeImport(start=row["version"], code=code, due_at=due_at)
            if not row["is_expired"]:
                at_once.append(stream)
        outcomes = self._ledger.execute_many(commands, at=now(), by="sweeper") if commands else []
        if given_back := {outcome.stream for outcome in outcomes if outcome.recorded is not None}:
            logger.warning("abandoned imports were given back", imports=len(given_back))
            at_once = [stream for stream in at_once if stream in given_back]
            for stream in at_once:
                self._doorbell.ring([stream])
            self._rung |= dict.fromkeys(at_once, time.monotonic())

    def _give_up_abandoned_mails(self, connection: Connection[Any]) -> None:
        """A message whose worker is gone may have been sent: it is not sent again."""
        parameters = {"lock_class": locks.WORKERS, "limit": LIMIT}
        commands = {
            customer_mail.stream_of(row["supplier"], row["external_account_number"]): customer_mail.FailMail(
                attempt=row["attempt"], code="outcome_unknown"
            )
            for row in connection.execute(SELECT_ABANDONED_MAILS.encode(), parameters)
        }
        if commands:
            self._ledger.execute_many(commands, at=now(), by="sweeper")

    def _ring_for_mails(self, connection: Connection[Any], relayed: int) -> None:
        if self._doorbell.waiting(MAILS):
            return
        parameters = {"lost_after": LOST_AFTER, "relayed": relayed, "limit": MAILS_PER_MESSAGE}
        rows = connection.execute(SELECT_WAITING_MAILS, parameters)
        streams = [customer_mail.stream_of(row["supplier"], row["external_account_number"]) for row in rows]
        if streams:
            self._doorbell.ring(streams, MAILS)

    def _ring_for_reconciliations(self, connection: Connection[Any]) -> None:
        """Ring for all open jobs, whenever no message waits. Nothing else rings for them."""
        jobs = waiting_jobs(connection)
        if jobs and not self._doorbell.waiting(RECONCILIATIONS):
            for job in jobs:
                self._doorbell.ring([job], RECONCILIATIONS)

    def _ring_for_waiting(self, connection: Connection[Any], relayed: int) -> None:
        if self._doorbell.waiting():
            return
        clock = time.monotonic()
        self._rung = {stream: t for stream, t in self._rung.items() if clock - t < RING_AGAIN_AFTER_S}
        parameters = {"lost_after": LOST_AFTER, "relayed": relayed, "limit": LIMIT}
        together: list[str] = []
        alone: list[str] = []
        for row in connection.execute(_SELECT_WAITING, parameters):
            stream = stream_of(row["supplier"], row["external_account_number"])
            if stream not in self._rung:
                (alone if row["attempt"] else together).append(stream)
        for i in range(0, len(together), STREAMS_PER_MESSAGE):
            self._doorbell.ring(together[i : i + STREAMS_PER_MESSAGE])
        for stream in alone:
            self._doorbell.ring([stream])
        self._rung |= dict.fromkeys((*together, *alone), clock)
