"""The sweeper: adds streams that are due, and on which no worker works, to the lane of their supplier.

A stream may be due because of a lost message, a flushed Redis, a dead or hanging worker, a schedule window, a postponed
attempt, or a full lane. An import with an earlier attempt gets a separate message, so that no other import is affected
if it kills its worker.
"""

import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import structlog
from psycopg import Connection

from eventstore.aggregates import customer_mail
from eventstore.aggregates.import_process import PostponeImport, identity_of, stream_of
from eventstore.clock import now
from eventstore.errors import StoreUnavailable
from eventstore.log import locks
from eventstore.log.ledger import Ledger
from projections.auxiliary.refused_attempts import delete_old_attempts
from projections.queries.reconciliation import waiting_jobs
from projections.views.customer_mail import FIRST_MAIL, SELECT_ABANDONED_MAILS, SELECT_WAITING_MAILS
from telemetry.supervision import supervision
from workers.actors.starting import LONGEST_LEASE
from workers.backoff import backoff
from workers.broker import IMPORTS, MAILS, RECONCILIATIONS, Dispatcher, Queue, QueueUnavailable
from workers.followers.fair_queue import FairQueue, Waiting
from workers.followers.leader import ends_work

INTERVAL_S = 1.0
PART_INTERVAL_S = 0.1
"""Interval while the imports of a supplier are read in parts [seconds]."""
LIMIT = 1_000
DELETE_EVERY_S = 600.0
"""Interval between deletions of refused attempts that are too old or too many [seconds]."""

_SELECT_ABANDONED = """
SELECT supplier, external_account_number, version, attempt,
       least(lease_until, modified_at + %(longest_lease)s) < statement_timestamp() AS is_expired,
       statement_timestamp() AS at
FROM import_status
WHERE status = 'IN_PROGRESS'
  AND (least(lease_until, modified_at + %(longest_lease)s) < statement_timestamp()
       OR NOT EXISTS (
           SELECT FROM pg_locks
           WHERE locktype = 'advisory' AND classid = %(lock_class)s::bigint::oid AND objid::bigint = worker AND granted
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())))
ORDER BY modified_at
LIMIT %(limit)s
"""

_ALL_SUPPLIERS = """
WITH RECURSIVE suppliers AS (
    (SELECT supplier FROM import_status ORDER BY supplier LIMIT 1)
    UNION ALL
    SELECT (SELECT i.supplier FROM import_status AS i WHERE i.supplier > s.supplier ORDER BY i.supplier LIMIT 1)
    FROM suppliers AS s
    WHERE s.supplier IS NOT NULL
)
"""
_SHORT_SUPPLIERS = "WITH suppliers AS (SELECT unnest(%(short)s::text[]) AS supplier)"
_SELECT_WAITING = """
SELECT supplier, waiting.*
FROM suppliers
LEFT JOIN unnest(%(suppliers)s::text[], %(after)s::bigint[]) AS read (supplier, after) USING (supplier)
CROSS JOIN LATERAL (
    SELECT count(*) AS number, max(created_position) AS last,
           array_agg(external_account_number ORDER BY created_position) FILTER (WHERE is_due) AS externals,
           array_agg(coalesce(attempt, 0) ORDER BY created_position) FILTER (WHERE is_due) AS attempts,
           array_agg(created_position ORDER BY created_position) FILTER (WHERE is_due) AS firsts,
           array_agg(position ORDER BY created_position) FILTER (WHERE is_due) AS positions,
           array_agg((
               SELECT coalesce(max(received_bytes), 0)
               FROM payloads
               WHERE stream = 'import/' || suppliers.supplier || '/' || external_account_number
           ) ORDER BY created_position) FILTER (WHERE is_due) AS sizes
    FROM (
        SELECT external_account_number, attempt, created_position, position,
               position <= %(relayed)s AND (due_at IS NULL OR due_at <= statement_timestamp()) AS is_due
        FROM import_status AS i
        WHERE i.supplier = suppliers.supplier AND status = 'PENDING' AND created_position > coalesce(read.after, 0)
        ORDER BY created_position
        LIMIT %(limit)s
    ) AS looked_at
) AS waiting
WHERE supplier <> ALL(%(full)s::text[]) AND waiting.number > 0
  AND NOT EXISTS (SELECT FROM import_supplier AS s WHERE s.code = supplier AND s.status = 'paused')
"""
"""Query of the next waiting imports of each supplier whose lane is not full.

If `number` is below the limit, the supplier has no further waiting imports.

Imports of paused suppliers are left out until the supplier is ongoing again.
"""

logger = structlog.get_logger()


class Sweeper:
    """Part of the active relay that adds due streams to lanes.

    It stores its position in the waiting imports in memory.
    """

    def __init__(self, ledger: Ledger, dispatcher: Dispatcher, lanes: Mapping[Queue, FairQueue]) -> None:
        self._ledger = ledger
        self._dispatcher = dispatcher
        self._lanes = lanes
        self._next_sweep_at = 0.0
        self._next_read_at = 0.0
        self._last_read: dict[str, int] = {}
        """By supplier with more imports: position of the first event of the last import that was read."""
        self._last_mail = FIRST_MAIL
        self._next_deletion_at = 0.0

    def sweep_when_due(self, connection: Connection[Any], relayed: int) -> None:
        """Sweep once a second.

        Between two sweeps, read further imports of suppliers that have more imports and whose lane is not full.

        `relayed` is the relay's position: later events reach the lanes through the relay.
        """
        at = time.monotonic()
        if at >= self._next_sweep_at:
            self._next_sweep_at = at + INTERVAL_S
            self.sweep(connection, relayed)
        elif at >= self._next_read_at:
            lanes = self._lanes[IMPORTS]
            if short := {*lanes.cut, *self._last_read} - {*lanes.full()}:  # more imports wait, and the lane is not full
                self._read_waiting(connection, relayed, short)

    def sweep(self, connection: Connection[Any], relayed: int) -> None:
        """Postpone abandoned imports, then fill the lanes. A step that fails does not stop the others."""
        passes = ends_work(connection, StoreUnavailable, QueueUnavailable)
        steps: dict[str, Callable[[], None]] = {
            "abandoned imports": partial(self._postpone_abandoned, connection),
            "abandoned e-mails": partial(self._fail_abandoned_mails, connection),
            "waiting imports": partial(self._read_waiting, connection, relayed),
            "waiting e-mails": partial(self._read_mails, connection, relayed),
            "reconciliations": partial(self._enqueue_reconciliations, connection),
            "refused attempts": partial(self._delete_attempts, connection),
        }
        for name, step in steps.items():
            with supervision.part(f"sweeper of {name}", passes=passes):
                step()

    def _delete_attempts(self, connection: Connection[Any]) -> None:
        if time.monotonic() >= self._next_deletion_at:
            self._next_deletion_at = time.monotonic() + DELETE_EVERY_S
            delete_old_attempts(connection, now())

    def _postpone_abandoned(self, connection: Connection[Any]) -> None:
        """Postpone imports whose lease has expired or whose worker is lost.

        Imports of a lost worker are due at once.
        """
        parameters = {"lock_class": locks.WORKERS, "limit": LIMIT, "longest_lease": LONGEST_LEASE}
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
        if postponed := {outcome.stream: outcome.recorded.position for outcome in outcomes if outcome.recorded}:
            logger.warning("abandoned imports were postponed", imports=len(postponed))
            for stream in at_once:
                if stream in postponed:
                    self._lanes[IMPORTS].add(identity_of(stream)[0], stream, Waiting(postponed[stream], is_alone=True))

    def _fail_abandoned_mails(self, connection: Connection[Any]) -> None:
        """Record e-mails of lost workers as failed. Such e-mails may have been sent, and are not sent again."""
        parameters = {"lock_class": locks.WORKERS, "limit": LIMIT}
        commands = {
            customer_mail.stream_of(row["supplier"], row["external_account_number"]): customer_mail.FailMail(
                attempt=row["attempt"], code="outcome_unknown"
            )
            for row in connection.execute(SELECT_ABANDONED_MAILS.encode(), parameters)
        }
        if commands:
            self._ledger.execute_many(commands, at=now(), by="sweeper")

    def _read_mails(self, connection: Connection[Any], relayed: int) -> None:
        parameters = {"relayed": relayed, "limit": LIMIT, **self._last_mail}
        rows = connection.execute(SELECT_WAITING_MAILS, parameters).fetchall()
        for row in rows:
            stream = customer_mail.stream_of(row["supplier"], row["external_account_number"])
            self._lanes[MAILS].add(row["supplier"], stream, Waiting(row["position"]))
        last = rows[-1] if len(rows) == LIMIT else FIRST_MAIL
        self._last_mail = {name: last[name] for name in FIRST_MAIL}

    def _enqueue_reconciliations(self, connection: Connection[Any]) -> None:
        """Send a message for each open job if no message waits. Only the sweeper sends these messages."""
        jobs = waiting_jobs(connection)
        if jobs and not self._dispatcher.waiting(RECONCILIATIONS):
            for job in jobs:
                self._dispatcher.enqueue([job], RECONCILIATIONS)

    def _read_waiting(self, connection: Connection[Any], relayed: int, short: Collection[str] | None = None) -> None:
        """Fill the lanes with waiting imports of all suppliers, or only of the suppliers in `short`, after the last
        position.
        """
        self._next_read_at = time.monotonic() + PART_INTERVAL_S
        lanes = self._lanes[IMPORTS]
        limit, full = lanes.capacity // 2, lanes.full()
        parameters: dict[str, Any] = {
            "suppliers": [*self._last_read],
            "after": [*self._last_read.values()],
            "full": full,
        }
        parameters |= {"relayed": relayed, "limit": limit, "short": list(short or ())}
        suppliers = _ALL_SUPPLIERS if short is None else _SHORT_SUPPLIERS
        rows = connection.execute(f"{suppliers}{_SELECT_WAITING}".encode(), parameters).fetchall()
        for supplier in {*self._last_read, *lanes.cut}.difference(full) if short is None else short:
            self._last_read.pop(supplier, None)
            lanes.cut.discard(supplier)
        for row in rows:
            supplier, last = row["supplier"], row["last"]
            if row["number"] == limit:
                self._last_read[supplier] = last
            columns = (row[name] or () for name in ("externals", "attempts", "firsts", "positions", "sizes"))
            for external, attempt, first, position, size in zip(*columns, strict=True):
                waiting = Waiting(position, size, is_alone=attempt > 0)
                if not lanes.add(supplier, stream_of(supplier, external), waiting):
                    self._last_read[supplier] = first - 1
                    break
