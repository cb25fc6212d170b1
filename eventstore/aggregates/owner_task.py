"""Owner tasks: a user requests an action that needs the database owner's rights, and the relay runs it. Pure.

A task that has succeeded is not run again. If the relay dies during an attempt, the task is started again. Every task
must therefore be repeatable.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Literal, assert_never

import msgspec

from eventstore.aggregates.aggregate import Aggregate, Command, Count, Event, Events, Instant, State, event_of
from eventstore.errors import IllegalTransition

OwnerTaskKind = Literal[
    "erase",
    "revert",
    "release",
    "heal",
    "projection_verify",
    "projection_rebuild",
    "projection_switch",
    "log_verify",
    "key_create",
    "key_revoke",
    "user_create",
    "user_link",
    "user_role",
    "user_disable",
    "user_enable",
    "user_sign_out",
    "user_erase",
    "user_openid",
]
MAX_ATTEMPTS = 3
"""Attempts of a task. A further start makes the task fail."""


class OwnerTaskRequested(Event, frozen=True):
    """A user requests an action that needs the owner's rights. `reason` is the id of the typed reason.

    `mac` is the api's MAC (`eventstore.log.authority`) over all other fields and the task's id.
    """

    kind: OwnerTaskKind
    arguments: dict[str, str]
    user: str
    reason: str = ""
    session: str = ""
    requested_at: Instant | None = None
    mac: str = ""


class OwnerTaskStarted(Event, frozen=True):
    """The relay starts an attempt."""

    attempt: Count


class OwnerTaskFinished(Event, frozen=True):
    """The task has succeeded."""


class OwnerTaskFailed(Event, frozen=True):
    """The task has failed and is not repeated. `error` names no person."""

    error: str


OwnerTaskEvent = OwnerTaskRequested | OwnerTaskStarted | OwnerTaskFinished | OwnerTaskFailed


class RequestOwnerTask(Command, frozen=True):
    """Request the task."""

    kind: OwnerTaskKind
    arguments: dict[str, str]
    user: str
    reason: str = ""
    session: str = ""
    requested_at: datetime | None = None
    mac: str = ""


class StartOwnerTask(Command, frozen=True):
    """Start an attempt."""


class FinishOwnerTask(Command, frozen=True):
    """Record that the attempt has succeeded. A command of an older `attempt` is refused."""

    attempt: int


class FailOwnerTask(Command, frozen=True):
    """Record that the attempt has failed permanently."""

    attempt: int
    error: str


class OwnerTaskState(State, frozen=True):
    """Status and number of attempts."""

    status: Literal["unknown", "requested", "running", "done", "failed"] = "unknown"
    attempts: int = 0


def decide(command: Command, task: OwnerTaskState, at: datetime) -> OwnerTaskEvent | None:
    """Return the event that follows, or None. Raises IllegalTransition."""
    match command, task.status:
        case RequestOwnerTask(), "unknown":
            return event_of(OwnerTaskRequested, command)
        case RequestOwnerTask(), _:
            return None
        case StartOwnerTask(), "requested" | "running":
            if task.attempts >= MAX_ATTEMPTS:
                return OwnerTaskFailed(error=f"given up after {task.attempts} attempts")
            return OwnerTaskStarted(attempt=task.attempts + 1)
        case ((FinishOwnerTask() | FailOwnerTask()), _) if command.attempt != task.attempts:
            raise IllegalTransition(task.status, type(command).__name__)  # the command is from an older attempt
        case FinishOwnerTask(), "running":
            return OwnerTaskFinished()
        case FailOwnerTask(), "running":
            return event_of(OwnerTaskFailed, command)
        case (FinishOwnerTask(), "done") | (FailOwnerTask(), "failed"):
            return None
    raise IllegalTransition(task.status, type(command).__name__)


def evolve(task: OwnerTaskState, event: OwnerTaskEvent) -> OwnerTaskState:
    """Return the state after the event."""
    match event:
        case OwnerTaskRequested():
            return OwnerTaskState(status="requested") if task.status == "unknown" else task
        case OwnerTaskStarted(attempt=attempt):
            return OwnerTaskState(status="running", attempts=attempt)
        case OwnerTaskFinished():
            return msgspec.structs.replace(task, status="done")
        case OwnerTaskFailed():
            return msgspec.structs.replace(task, status="failed")
        case _:
            assert_never(event)


def stream_of(task_id: str) -> str:
    return f"owner-task/{task_id}"


def with_mac(request: RequestOwnerTask, task_id: str, mac: Callable[..., str]) -> RequestOwnerTask:
    """Return the request with its MAC. The MAC covers the task's id, so it holds for this task only."""
    return msgspec.structs.replace(request, mac=mac(*_covered(task_id, request)))


def is_authentic(request: OwnerTaskRequested, task_id: str, is_mac: Callable[..., bool]) -> bool:
    """Return whether the request's MAC was made for this task."""
    return is_mac(request.mac, *_covered(task_id, request))


def _covered(task_id: str, request: RequestOwnerTask | OwnerTaskRequested) -> tuple[str | datetime | None, ...]:
    arguments = msgspec.json.encode(request.arguments, order="sorted").decode()
    fields = (request.kind, arguments, request.user, request.session, request.reason, request.requested_at)
    return ("owner task", task_id, *fields)


EVENTS: Events = {
    "owner_task_requested.v1": (OwnerTaskRequested, RequestOwnerTask),
    "owner_task_started.v1": (OwnerTaskStarted, StartOwnerTask),
    "owner_task_finished.v1": (OwnerTaskFinished, FinishOwnerTask),
    "owner_task_failed.v1": (OwnerTaskFailed, FailOwnerTask),
}
OWNER_TASK = Aggregate("owner-task", EVENTS, OwnerTaskState(), decide, evolve)
