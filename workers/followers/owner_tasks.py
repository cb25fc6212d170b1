"""Owner's tasks: requests of users that need the rights of the database's owner, which only the relay has.

Only one process executes tasks, by an advisory lock, and checks the user's current rights before each task. Tasks about
keys and users do not wait for other tasks, of which one is executed at a time.
Every task can be repeated: if the database is unavailable, a task is tried until it succeeds; if the process ends
during three attempts, the task fails. A proposal, and each task of a kind in `four_eyes`, needs the approval of a
second person. The digest of a proposal's preview is compared before the first change.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
import structlog
from psycopg import Connection

from eventstore.aggregates.owner_task import (
    FailOwnerTask,
    FinishOwnerTask,
    OwnerTaskRequested,
    OwnerTaskStarted,
    StartOwnerTask,
    actor_of,
    is_authentic,
    stream_of,
)
from eventstore.clock import now
from eventstore.errors import OperatorError, Refused, StoreUnavailable, first_line
from eventstore.log import follow, locks
from eventstore.log.authority import AuthorityKey
from eventstore.log.columns import log_head
from eventstore.log.ledger import Ledger, WriteRows
from eventstore.log.rows import rows_of
from eventstore.log.store_errors import store_errors
from projections import INLINE, PROJECTIONS
from projections.queries.history import account_streams
from projections.retention.reverting import revert
from projections.versions.build import Progress, administrator
from projections.versions.compare import compare, heal, side_by_side, verify
from projections.versions.projection import Projection
from projections.versions.versions import (
    ProjectionVersion,
    build_version,
    live_version,
    parked_streams,
    switch_if_needed,
    version_lock,
)
from projections.views.owner_task import open_tasks
from redaction.text import message_of
from telemetry.supervision import supervision
from workers.followers.leader import Follower, ends_work
from workers.operations import UserNotPossible, carry_out, forget_uncreated, may_request, selection_of
from workers.proposals import (
    NOT_ALLOWED,
    Subjects,
    digest_of,
    request_of,
    require_approval,
    require_nothing_more,
    require_unchanged,
)
from workers.row_differences import ROWS, differing_rows

PROGRESS_EVERY_S = 0.5
PAUSE_S = 0.25
"""Shortest pause between two queries for tasks [seconds], since every append notifies this thread, but few appends are
tasks.
"""
JOBS = 2
VerifyLog = Callable[[Mapping[str, str], Progress], dict[str, Any]]
"""Function that verifies the log like `importledger verify`, and returns the findings."""

_WRITE_PROGRESS = """
INSERT INTO owner_task_progress AS p (task_id, done, total, outcome, written_at)
VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (task_id) DO UPDATE
SET done = excluded.done, total = excluded.total, written_at = excluded.written_at,
    outcome = CASE WHEN excluded.outcome = '' THEN p.outcome ELSE excluded.outcome END
"""
_SELECT_SUBJECTS = "SELECT outcome FROM owner_task_progress WHERE task_id = %s"

logger = structlog.get_logger()
_BY_NAME = {projection.name: projection for projection in PROJECTIONS}


class OwnerTasks(Follower):
    """Follower that carries out requested tasks until `stop` is set. It survives the loss of Postgres."""

    name = "owner's tasks"
    lock = locks.OWNER_TASKS

    def __init__(
        self,
        ledger: Ledger,
        admin_url: str,
        authority: AuthorityKey,
        verify_log: VerifyLog,
        four_eyes: Collection[str] = (),
    ) -> None:
        super().__init__(ledger)
        self._four_eyes = four_eyes
        self._authority = authority
        self._admin_url = admin_url
        self._verify_log = verify_log
        self._others: threading.Thread | None = None
        """Thread of tasks that may take hours, so that tasks about keys and users do not wait for them."""
        self._begun: dict[str, int] = {}
        """Attempts that a lost database has interrupted, by task.

        Such an attempt continues without being counted again.
        """

    def work(self, connection: Connection[Any], stop: threading.Event) -> None:
        ends = threading.Event()
        try:
            while not stop.is_set():
                due = _next_due(connection, of_access=True)
                if due is not None:
                    with supervision.part(_work_name(due), passes=ends_work(connection, StoreUnavailable)):
                        self.carry_out(due)
                elif not self._has_others() and _next_due(connection, of_access=False) is not None:
                    self._others = supervision.thread(
                        "other owner's tasks", partial(self._carry_out_others, ends), ends
                    )
                supervision.works(self.name)
                if due is None:
                    stop.wait(PAUSE_S)
                    follow.wait(connection)
        finally:
            ends.set()
        if self._others is not None:
            self._others.join()

    def _has_others(self) -> bool:
        return self._others is not None and self._others.is_alive()

    def _carry_out_others(self, ends: threading.Event) -> None:
        """Carry out the tasks that are not about keys or users, until none is due or this process stops to lead."""
        while not ends.is_set():
            try:
                with self._ledger.connection() as connection:
                    due = _next_due(connection, of_access=False)
            except StoreUnavailable:
                return  # the leader starts this again
            if due is None:
                return
            try:
                with supervision.part(_work_name(due), passes=lambda error: isinstance(error, StoreUnavailable)):
                    self.carry_out(due)
            except StoreUnavailable as error:
                supervision.failed(_work_name(due), error, is_waiting=True)

    def carry_out(self, task_id: str) -> None:
        """Carry out one task and record its result. Raises StoreUnavailable; the attempt continues later."""
        attempt, request = self._attempt(task_id), request_of(self._ledger, task_id)
        assert request is not None, "a task begins with its request"
        if attempt is None:
            self._forget_uncreated(request)
            return
        logger.info("owner's task begins", task=task_id, kind=request.kind)
        try:
            if not is_authentic(request, task_id, self._authority.is_mac):
                raise NotAuthentic
            if not may_request(self._ledger, request):
                raise NotAllowed
            if request.preview_sha256 or request.kind in self._four_eyes:
                require_approval(self._ledger, self._authority, task_id, request)
            with store_errors():
                subjects = self._subjects(task_id, request) if request.preview_sha256 else None
                outcome = self._execute(task_id, request, subjects)
        except StoreUnavailable as error:
            self._begun[task_id] = attempt
            raise StoreUnavailable(first_line(error)) from error
        except Exception as error:  # an error ends the task, not the relay
            reason = (
                str(error)
                if isinstance(error, Refused | OperatorError | NotAllowed | NotAuthentic | UserNotPossible)
                else message_of(error)
            )
            logger.warning("owner's task failed", task=task_id, kind=request.kind, reason=type(error).__name__)
            self._forget_uncreated(request)
            self._end(task_id, FailOwnerTask(attempt=attempt, error=reason), None)
            return
        total, text = outcome.get("events", 0), msgspec.json.encode(outcome).decode()
        self._end(
            task_id,
            FinishOwnerTask(attempt=attempt),
            lambda connection, events: write_progress(connection, task_id, total, total, text),
        )

    def _forget_uncreated(self, request: OwnerTaskRequested) -> None:
        """Delete the details of a user whose creation has failed."""
        if request.kind == "user_create":
            with self._owner_ledger() as ledger:
                forget_uncreated(ledger, request.arguments["user_id"])

    def _subjects(self, task_id: str, request: OwnerTaskRequested) -> Subjects:
        """Return the subjects of an approved proposal, and save them for a further attempt, which may find that a part
        was carried out. Raises ProposalFailed if the subjects have changed since the proposal.
        """
        with self._ledger.connection() as connection:
            rows = rows_of(connection, _SELECT_SUBJECTS, task_id)
        saved: Subjects = msgspec.json.decode(rows[0][0]).get("subjects", []) if rows and rows[0][0] else []
        with self._owner_ledger() as ledger:
            if rows and digest_of(request.kind, request.arguments, saved) == request.preview_sha256:
                return require_nothing_more(ledger, task_id, request, saved)
            subjects = require_unchanged(ledger, request)
        with self._ledger.connection() as connection:
            write_progress(connection, task_id, 0, 0, msgspec.json.encode({"subjects": subjects}).decode())
        return subjects

    def _attempt(self, task_id: str) -> int | None:
        """Return the number of a new attempt, or of an attempt that was interrupted in this process; None if no attempt
        may start.
        """
        stream, begun = stream_of(task_id), self._begun.pop(task_id, 0)
        if begun and self._ledger.load([stream])[stream].state.attempts == begun:
            return begun
        started = self._ledger.execute(stream, StartOwnerTask(), at=now(), by="relay")
        return started.event.attempt if started and isinstance(started.event, OwnerTaskStarted) else None

    def _end(self, task_id: str, command: FinishOwnerTask | FailOwnerTask, write_rows: WriteRows | None) -> None:
        """Record the result, unless another relay has taken the task over."""
        try:
            self._ledger.execute(stream_of(task_id), command, at=now(), by="relay", write_rows=write_rows)
        except Refused:
            logger.warning("owner's task was taken over", task=task_id)
        else:
            logger.info("owner's task has ended", task=task_id)

    def _execute(self, task_id: str, request: OwnerTaskRequested, subjects: Subjects | None = None) -> dict[str, Any]:
        """Carry out the request and return its result. A proposal changes only its subjects."""
        values = request.arguments
        if request.kind == "log_verify":
            with self._ledger.connection() as connection:
                total = log_head(connection)
            return self._verify_log(values, self._progress(task_id, total))
        if request.kind == "heal":
            return self._repair(values["supplier"], values["external"])
        if request.kind.startswith("projection_"):
            return self._run_on_projection(task_id, request, _BY_NAME[values["name"]])
        with self._owner_ledger() as ledger:
            if request.kind == "revert":
                return self._revert(ledger, task_id, request, subjects)
            return {"is_changed": carry_out(ledger, request, actor_of(request.user), subjects)}

    @contextmanager
    def _owner_ledger(self) -> Iterator[Ledger]:
        """Open the log with the rights of the database's owner."""
        ledger = Ledger(self._admin_url, views=INLINE)
        try:
            yield ledger
        finally:
            ledger.close()

    def _revert(
        self, ledger: Ledger, task_id: str, request: OwnerTaskRequested, subjects: Subjects | None
    ) -> dict[str, Any]:
        save, by, selection = self._progress(task_id), actor_of(request.user), selection_of(request.arguments)
        if subjects is not None:
            selection = msgspec.structs.replace(selection, numbers=frozenset(subjects))
        reverted = revert(ledger, selection, request.reason, by=by, progress=save)
        outcome: dict[str, Any] = msgspec.to_builtins(reverted)
        return outcome | {"events": reverted.total}

    def _repair(self, supplier: str, external: str) -> dict[str, Any]:
        with administrator(self._admin_url) as connection:
            streams = account_streams(connection, supplier, external)
            repaired = [heal(connection, projection, streams) for projection in PROJECTIONS]
        return {"projections": [msgspec.to_builtins(result) for result in repaired]}

    def _run_on_projection(self, task_id: str, request: OwnerTaskRequested, projection: Projection) -> dict[str, Any]:
        url = self._admin_url
        with administrator(url) as connection, version_lock(connection, projection):
            total = log_head(connection)
            progress = self._progress(task_id, total)
            if request.kind != "projection_switch":
                progress(0)  # pages show the number of events at once
            if request.kind == "projection_verify":
                verified = verify(url, connection, projection, limit=ROWS, progress=progress)
                return differing_rows(verified, projection) | {"parked": verified.parked, "events": total}
            if request.kind == "projection_switch":
                return switch_if_needed(connection, projection, int(request.arguments["version"]))
            built = build_version(url, connection, projection, jobs=JOBS, progress=progress)
            parked = len(parked_streams(connection, projection.name, built.version))
            outcome = {"version": built.version, "events": total, "parked": parked, "is_switched": False}
            if not live_version(connection, projection.name).is_outdated(projection):
                outcome |= _compare_with_live(url, connection, projection, built)
            if request.arguments.get("switch") == "yes" and "projection_switch" not in self._four_eyes:
                outcome |= switch_if_needed(connection, projection, built.version) | {"is_switched": True}
            return outcome

    def _progress(self, task_id: str, total: int = 0) -> Callable[..., None]:
        """Return a function that saves the progress of a task, at most once in PROGRESS_EVERY_S."""
        saved_at = 0.0

        def save(done: int, of: int = total) -> None:
            nonlocal saved_at
            if time.monotonic() - saved_at < PROGRESS_EVERY_S:
                return
            saved_at = time.monotonic()
            with self._ledger.connection() as connection:
                write_progress(connection, task_id, min(done, of or done), of)

        return save


def _work_name(task_id: str) -> str:
    return f"owner's task {task_id}"


def _next_due(connection: Connection[Any], *, of_access: bool) -> str | None:
    """Return the next open task whose pause after a failure is over."""
    tasks = open_tasks(connection, of_access=of_access)
    return next((task_id for task_id in tasks if supervision.is_due(_work_name(task_id))), None)


class NotAuthentic(Exception):
    """The request has no MAC of the api, so an attacker has written it into the database."""

    def __str__(self) -> str:
        return "the request must have a MAC of the api"


class NotAllowed(Exception):
    """The user does not have the right to the operation at present."""

    def __str__(self) -> str:
        return NOT_ALLOWED


def write_progress(connection: Connection[Any], task_id: str, done: int, total: int, outcome: str = "") -> None:
    """Save the number of events that are done, their total, and the result as JSON once the task has ended.

    Without an outcome, the saved outcome stays: before the end, this column has the subjects of a proposal.
    """
    connection.execute(_WRITE_PROGRESS, (task_id, done, total, outcome, now()))


def _compare_with_live(
    admin_url: str, connection: Connection[Any], projection: Projection, built: ProjectionVersion
) -> dict[str, Any]:
    """Return the rows of a new version that differ from the live version.

    A failure of this comparison is logged and does not fail the build.
    """
    try:
        with side_by_side(admin_url, connection, projection, built):
            return differing_rows(
                compare(connection, projection, projection.home, built.schema, limit=ROWS), projection
            )
    except Exception as error:
        if connection.closed:  # the task starts again when the database answers
            raise
        logger.warning("versions not compared", projection=projection.name, reason=first_line(error))
        return {}
