"""What needs the rights of the database's owner: a user requests it, the relay, which has them, carries it out. Pure.

A task is carried out once. Where the relay dies on the way, it is taken up again; whatever it does can be repeated.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Literal, assert_never

import msgspec

from eventstore.aggregates.aggregate import Aggregate, Command, Count, Event, Events, Instant, State, event_of
from eventstore.errors import IllegalTransition

OwnerTaskKind = Literal[
    "erase",
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


class OwnerTaskRequested(Event, frozen=True):
    """A user asks for something that needs the owner's rights; `reason` is the id of what they typed.

    `mac` is that of the api (`eventstore.log.authority`), over everything else and the task's id.
    """

    kind: OwnerTaskKind
    arguments: dict[str, str]
    user: str
    reason: str = ""
    session: str = ""
    requested_at: Instant | None = None
    mac: str = ""


class OwnerTaskStarted(Event, frozen=True):
    """The relay begins to carry it out."""

    attempt: Count


class OwnerTaskFinished(Event, frozen=True):
    """It is carried out."""


class OwnerTaskFailed(Event, frozen=True):
    """It could not be carried out, and is not tried again; `error` names no person."""

    error: str


OwnerTaskEvent = OwnerTaskRequested | OwnerTaskStarted | OwnerTaskFinished | OwnerTaskFailed


class RequestOwnerTask(Command, frozen=True):
    """Ask for it."""

    kind: OwnerTaskKind
    arguments: dict[str, str]
    user: str
    reason: str = ""
    session: str = ""
    requested_at: datetime | None = None
    mac: str = ""


class StartOwnerTask(Command, frozen=True):
    """Take it up."""


class FinishOwnerTask(Command, frozen=True):
    """Record that the attempt has carried it out. `attempt` is the fencing token: it only rises."""

    attempt: int


class FailOwnerTask(Command, frozen=True):
    """Record that the attempt has failed for good."""

    attempt: int
    error: str


class OwnerTaskState(State, frozen=True):
    """How far it is."""

    status: Literal["unknown", "requested", "running", "done", "failed"] = "unknown"
    attempts: int = 0


def decide(command: Command, task: OwnerTaskState, at: datetime) -> OwnerTaskEvent | None:
    """The event that follows, or none. Raises IllegalTransition."""
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
            raise IllegalTransition(task.status, type(command).__name__)  # of another attempt: it came back late
        case FinishOwnerTask(), "running":
            return OwnerTaskFinished()
        case FailOwnerTask(), "running":
            return event_of(OwnerTaskFailed, command)
        case (FinishOwnerTask(), "done") | (FailOwnerTask(), "failed"):
            return None
    raise IllegalTransition(task.status, type(command).__name__)


def evolve(task: OwnerTaskState, event: OwnerTaskEvent) -> OwnerTaskState:
    """The state after the event."""
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
    """The request with its MAC. It holds for this task alone: the task's id is covered."""
    return msgspec.structs.replace(request, mac=mac(*_covered(task_id, request)))


def is_authentic(request: OwnerTaskRequested, task_id: str, is_mac: Callable[..., bool]) -> bool:
    """Return True if the request's MAC was made for this task."""
    return is_mac(request.mac, *_covered(task_id, request))


def _covered(task_id: str, request: RequestOwnerTask | OwnerTaskRequested) -> tuple[str | datetime | None, ...]:
    arguments = msgspec.json.encode(request.arguments, order="sorted").decode()
    said = (request.kind, arguments, request.user, request.session, request.reason, request.requested_at)
    return ("owner task", task_id, *said)


EVENTS: Events = {
    "owner_task_requested.v1": (OwnerTaskRequested, RequestOwnerTask),
    "owner_task_started.v1": (OwnerTaskStarted, StartOwnerTask),
    "owner_task_finished.v1": (OwnerTaskFinished, FinishOwnerTask),
    "owner_task_failed.v1": (OwnerTaskFailed, FailOwnerTask),
}
OWNER_TASK = Aggregate("owner-task", EVENTS, OwnerTaskState(), decide, evolve)
