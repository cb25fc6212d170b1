"""Carries out what users have asked for and what needs the rights of the database's owner, which the relay alone has.

One process does so at a time, by an advisory lock. Before a task begins it is looked up whether whoever asked may do
so now. Each task can be repeated: one that was cut off is taken up again, three times at most.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
import structlog
from psycopg import Connection

from eventstore.aggregates import organisation
from eventstore.aggregates.owner_task import (
    FailOwnerTask,
    FinishOwnerTask,
    OwnerTaskRequested,
    OwnerTaskStarted,
    StartOwnerTask,
    is_authentic,
    stream_of,
)
from eventstore.clock import now
from eventstore.errors import Refused, StoreUnavailable, first_line
from eventstore.log import follow, locks
from eventstore.log.authority import AuthorityKey
from eventstore.log.ledger import Beside, Ledger
from eventstore.log.store_errors import store_errors
from projections import INLINE, PROJECTIONS
from projections.queries.history import account_streams
from projections.retention.erasure import erase, forget_attempts
from projections.versions.build import Progress, administrator
from projections.versions.compare import compare, side_by_side, verify
from projections.versions.healing import heal
from projections.versions.projection import Projection
from projections.versions.reading import head
from projections.versions.versions import (
    NotPossible,
    alone,
    build_version,
    catch_up,
    drop_versions,
    live_version,
    parked_streams,
    switch,
    versions,
)
from projections.views.owner_task import open_tasks
from redaction.shown import said_by
from telemetry.supervision import supervision
from workers.followers.leader import ends_work, lead
from workers.followers.task_progress import write_progress
from workers.followers.user_tasks import carry_out_on_user, forget_uncreated, is_of_user, may_change, user_of
from workers.told_differences import ROWS, rows_told
from workers.users import UserNotPossible

NAME = "owner's tasks"
TOLD_EVERY_S = 0.5
PAUSE_S = 0.25
"""How long after a look for tasks the next one is, while the log rings all the time."""
JOBS = 2
VerifyLog = Callable[[Mapping[str, str], Progress], dict[str, Any]]
"""Verifies the log as the verb does; what it found."""

logger = structlog.get_logger()
_BY_NAME = {projection.name: projection for projection in PROJECTIONS}
_OPERATORS = ("operator",)
_LOOKING = ("auditor", "support", "operator")
_ROLES = dict.fromkeys(("projection_verify", "projection_diff", "log_verify"), _LOOKING)
"""Who may ask for what; operators for all else."""


class RequestedTask(msgspec.Struct, frozen=True):
    """A task, and what was requested of the relay."""

    task_id: str
    request: OwnerTaskRequested

    @property
    def kind(self) -> str:
        return self.request.kind

    @property
    def arguments(self) -> dict[str, str]:
        return self.request.arguments

    @property
    def user_id(self) -> str:
        return self.request.user

    @property
    def reason(self) -> str:
        return self.request.reason


class OwnerTasks:
    """Runs until `stop` is set; survives the loss of Postgres."""

    def __init__(self, ledger: Ledger, admin_url: str, authority: AuthorityKey, verify_log: VerifyLog) -> None:
        self._ledger = ledger
        self._authority = authority
        self._admin_url = admin_url
        self._verify_log = verify_log

    def start(self, stop: threading.Event) -> threading.Thread:
        return supervision.thread(NAME, lambda: self.run(stop), stop)

    def run(self, stop: threading.Event) -> None:
        lead(self._ledger, locks.OWNER_TASKS, NAME, self._work, stop)

    def _work(self, connection: Connection[Any], stop: threading.Event) -> None:
        while not stop.is_set():
            names = {f"owner's task {task_id}": task_id for task_id in open_tasks(connection)}
            due = next(filter(supervision.is_due, names), None)
            supervision.works(NAME)
            if due is None:
                stop.wait(PAUSE_S)  # every append rings, and hardly any is a task
                follow.wait(connection)
                continue
            with supervision.part(due, passes=ends_work(connection, StoreUnavailable)):
                self.carry_out(names[due])

    def carry_out(self, task_id: str) -> None:
        """Carry one task out, and say what came of it. Raises StoreUnavailable; it is taken up again then."""
        stream, by = stream_of(task_id), "relay"
        started = self._ledger.execute(stream, StartOwnerTask(), at=now(), by=by)
        if started is None or not isinstance(started.event, OwnerTaskStarted):
            return
        task = self._requested(task_id)
        logger.info("owner's task begins", task=task_id, kind=task.kind)
        try:
            self._refuse_stranger(task)
            with store_errors():
                outcome = self._done(task)
        except StoreUnavailable as error:
            raise StoreUnavailable(first_line(error)) from error
        except Exception as error:  # whatever a task raises ends it, and not the relay
            said = (
                str(error)
                if isinstance(error, Refused | NotPossible | NotAllowed | NotAuthentic | UserNotPossible)
                else said_by(error)
            )
            logger.warning("owner's task failed", task=task_id, kind=task.kind, reason=type(error).__name__)
            if task.kind == "user_create":
                with self._owner() as ledger:
                    forget_uncreated(ledger, task.arguments["user_id"])
            self._end(task, FailOwnerTask(attempt=started.event.attempt, error=said), None)
            return
        total, text = outcome.get("events", 0), msgspec.json.encode(outcome).decode()
        self._end(
            task,
            FinishOwnerTask(attempt=started.event.attempt),
            lambda connection, events: write_progress(
                connection, task_id, now(), done=total, total=total, outcome=text
            ),
        )

    def _requested(self, task_id: str) -> RequestedTask:
        """The task as its first event says: what stands in a view could have been changed."""
        [first, *_] = self._ledger.history(stream_of(task_id))
        assert isinstance(first.event, OwnerTaskRequested)
        return RequestedTask(task_id, first.event)

    def _end(self, task: RequestedTask, command: FinishOwnerTask | FailOwnerTask, beside: Beside | None) -> None:
        """Record the outcome, unless another relay has taken the task up since: its attempt is the one that counts."""
        try:
            self._ledger.execute(stream_of(task.task_id), command, at=now(), by="relay", beside=beside)
        except Refused:
            logger.warning("owner's task was taken over", task=task.task_id, kind=task.kind)
        else:
            logger.info("owner's task has ended", task=task.task_id, kind=task.kind)

    def _refuse_stranger(self, task: RequestedTask) -> None:
        """Raises NotAuthentic for a request that the api has not made, NotAllowed for one beyond the user."""
        if not is_authentic(task.request, task.task_id, self._authority.is_mac):
            raise NotAuthentic
        if task.kind == "user_openid":
            return  # the api vouches for what the provider says of the user
        user = user_of(self._ledger, task.user_id)
        supplier = task.arguments.get("supplier")
        sees = "*" in user.suppliers or (supplier is not None and supplier in user.suppliers)
        if task.kind in ("key_create", "key_revoke"):
            named = set(filter(None, task.arguments.get("suppliers", "").split(",")))
            is_own = user.organisation == task.arguments.get("organisation")
            sees = "*" in user.suppliers or (is_own and named <= set(user.suppliers))
        if is_of_user(task.kind):
            sees = may_change(self._ledger, user, task.arguments)
        if user.status != "active" or user.role not in _ROLES.get(task.kind, _OPERATORS) or not sees:
            raise NotAllowed

    def _done(self, task: RequestedTask) -> dict[str, Any]:
        """Do it; what came of it."""
        said, by = task.arguments, f"user:{task.user_id}"
        match task.kind:
            case "erase":
                return self._erase(said["supplier"], said["external"], task.reason, by)
            case "heal":
                return self._heal(said["supplier"], said["external"])
            case "log_verify":
                with self._ledger.connection() as connection:
                    total = head(connection)
                return self._verify_log(said, self._progress(task.task_id, total))
            case "key_create":
                return self._create_key(said, by)
            case "key_revoke":
                command = organisation.RevokeKey(key_id=said["key_id"], reason=task.reason)
                return self._as_owner(organisation.stream_of(said["organisation"]), command, by)
            case kind if is_of_user(kind):
                with self._owner() as ledger:
                    return carry_out_on_user(ledger, task.request, "openid" if kind == "user_openid" else by)
            case _:
                return self._of_projection(task, _BY_NAME[said["name"]])

    @contextmanager
    def _owner(self) -> Iterator[Ledger]:
        """The log with the rights of the database's owner."""
        ledger = Ledger(self._admin_url, views=INLINE)
        try:
            yield ledger
        finally:
            ledger.close()

    def _erase(self, supplier: str, external: str, reason: str, by: str) -> dict[str, Any]:
        with self._owner() as ledger:
            done = erase(ledger, supplier, external, reason=reason, at=now(), by=by)
            forget_attempts(ledger, supplier, external)
        return {"is_erased": True, "is_new": done is not None}

    def _heal(self, supplier: str, external: str) -> dict[str, Any]:
        with administrator(self._admin_url) as connection:
            streams = account_streams(connection, supplier, external)
            healed = [heal(connection, projection, streams) for projection in PROJECTIONS]
        return {"projections": [msgspec.to_builtins(one) for one in healed]}

    def _create_key(self, said: Mapping[str, str], by: str) -> dict[str, Any]:
        command = organisation.CreateKey(
            key_id=said["key_id"],
            secret_sha256=said["secret_sha256"],
            role=msgspec.convert(said["role"], organisation.Role),
            suppliers=tuple(said["suppliers"].split(",")),
            rate_per_s=int(said.get("rate_per_s", "0")),
        )
        return self._as_owner(organisation.stream_of(said["organisation"]), command, by)

    def _as_owner(self, stream: str, command: organisation.OrganisationCommand, by: str) -> dict[str, Any]:
        with self._owner() as ledger:
            done = ledger.execute(stream, command, at=now(), by=by)
        return {"is_changed": done is not None}

    def _of_projection(self, task: RequestedTask, projection: Projection) -> dict[str, Any]:
        with administrator(self._admin_url) as connection, alone(connection, projection):
            total = head(connection)
            progress = self._progress(task.task_id, total)
            version = int(task.arguments.get("version") or 0)
            if task.kind == "projection_verify":
                verified = verify(self._admin_url, connection, projection, limit=ROWS, progress=progress)
                return rows_told(verified, projection) | {"parked": verified.parked, "events": total}
            if task.kind == "projection_switch":
                return _switched(connection, projection, version)
            if task.kind == "projection_diff":
                return _differing(self._admin_url, connection, projection, version)
            built = build_version(self._admin_url, connection, projection, jobs=JOBS, progress=progress)
            parked = len(parked_streams(connection, projection.name, built.version))
            outcome = {"version": built.version, "events": total, "parked": parked, "is_switched": False}
            if task.arguments.get("switch") == "yes":
                outcome |= _switched(connection, projection, built.version) | {"is_switched": True}
            return outcome

    def _progress(self, task_id: str, total: int = 0) -> Progress:
        """Tells how far a task is, not more often than can be looked at."""
        told_at = 0.0

        def tell(done: int) -> None:
            nonlocal told_at
            if time.monotonic() - told_at < TOLD_EVERY_S:
                return
            told_at = time.monotonic()
            with self._ledger.connection() as connection:
                write_progress(connection, task_id, now(), done=min(done, total or done), total=total)

        return tell


class NotAuthentic(Exception):
    """The request bears no MAC of the api: somebody who can write to the database has made it up."""

    def __str__(self) -> str:
        return "the request must bear a MAC of the api"


class NotAllowed(Exception):
    """Whoever asked may not do this now."""

    def __str__(self) -> str:
        return "whoever asked may not do this"


def _switched(connection: Connection[Any], projection: Projection, version: int) -> dict[str, Any]:
    former = live_version(connection, projection.name)
    if former.version == version:
        return {"version": version, "is_changed": False}
    position = switch(connection, projection, version)
    drop_versions(connection, projection, unfinished=False)
    return {"version": version, "is_changed": True, "position": position, "former": former.version}


def _differing(admin_url: str, connection: Connection[Any], projection: Projection, version: int) -> dict[str, Any]:
    """What would change if another version were live: how many rows, and the first of them."""
    if live_version(connection, projection.name).is_outdated(projection):
        raise NotPossible(f"{projection.name} is outdated. Rebuild it.")
    beside = [one for one in versions(connection, projection.name) if one.state in ("ready", "retired")]
    chosen = [one for one in beside if version in (0, one.version) and one.definition == projection.definition]
    if not chosen:
        raise NotPossible(f"There is no such version of {projection.name} beside the live one.")
    catch_up(connection, projection, chosen[-1].version)
    with side_by_side(admin_url, connection, projection, chosen[-1]):
        comparison = compare(connection, projection, projection.home, chosen[-1].schema, limit=ROWS)
    return rows_told(comparison, projection) | {"version": chosen[-1].version}
