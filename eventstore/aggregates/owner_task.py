"""Owner tasks: a user requests an action that needs the database owner's rights, and the relay runs it. Pure.

A task that has succeeded is not run again. If the relay dies during an attempt, the task starts again, so every task
must be repeatable.

A request with a digest of its preview is a proposal: another person must approve the task before it starts.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, assert_never

import msgspec

from eventstore.aggregates.aggregate import Aggregate, Command, Count, Event, Events, Instant, State, event_of
from eventstore.errors import IllegalTransition, Refused

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
    "complete",
    "retry",
    "cancel",
]
SECOND_PERSON: Mapping[str, OwnerTaskKind] = {
    "revert": "revert",
    "release": "release",
    "erase": "erase",
    "complete": "complete",
    "switch": "projection_switch",
    "retry": "retry",
    "cancel": "cancel",
}
"""Kinds of tasks that can require the approval of a second person, by their names in IMPORTLEDGER_FOUR_EYES."""
PROPOSAL_LASTS = timedelta(hours=72)
"""Time in which a proposal can be approved. Older proposals have ended."""
COMMAND_LINE = "operator:"
"""Beginning of the name of a person who uses the command line; the login name follows."""
KEY_PREFIX = "key:"
"""Beginning of `user` for a key of an organisation, which may request the healing of an account."""
MAX_ATTEMPTS = 3
"""Attempts of a task. After these attempts, the task fails."""


class OwnerTaskRequested(Event, frozen=True):
    """A user requests an action that needs the owner's rights. `reason` is the id of the typed reason.

    `mac` is the api's MAC (`eventstore.log.authority`) over all other fields and the task's id. A proposal has the
    numbers of its preview, and a SHA-256 over the accounts or versions that it concerns.
    """

    kind: OwnerTaskKind
    arguments: dict[str, str]
    user: str
    reason: str = ""
    session: str = ""
    requested_at: Instant | None = None
    mac: str = ""
    preview: dict[str, int] = msgspec.field(default_factory=dict)
    preview_sha256: str = ""


class OwnerTaskApproved(Event, frozen=True):
    """A second person approves the proposal. `mac` covers the MAC of the request and the other fields."""

    user: str
    approved_at: Instant
    mac: str


class OwnerTaskRejected(Event, frozen=True):
    """A person rejects the proposal, or withdraws their own. `reason` is the id of the typed reason."""

    user: str
    reason: str = ""


class OwnerTaskStarted(Event, frozen=True):
    """The relay starts an attempt."""

    attempt: Count


class OwnerTaskFinished(Event, frozen=True):
    """The task has succeeded."""


class OwnerTaskFailed(Event, frozen=True):
    """The task has failed and is not repeated. `error` names no person."""

    error: str


OwnerTaskEvent = (
    OwnerTaskRequested | OwnerTaskApproved | OwnerTaskRejected | OwnerTaskStarted | OwnerTaskFinished | OwnerTaskFailed
)


class RequestOwnerTask(Command, frozen=True):
    """Request the task."""

    kind: OwnerTaskKind
    arguments: dict[str, str]
    user: str
    reason: str = ""
    session: str = ""
    requested_at: datetime | None = None
    mac: str = ""
    preview: dict[str, int] = msgspec.field(default_factory=dict)
    preview_sha256: str = ""


class ApproveOwnerTask(Command, frozen=True):
    """Approve the proposal."""

    user: str
    approved_at: datetime
    mac: str = ""


class RejectOwnerTask(Command, frozen=True):
    """Reject the proposal."""

    user: str
    reason: str = ""


class StartOwnerTask(Command, frozen=True):
    """Start an attempt."""


class FinishOwnerTask(Command, frozen=True):
    """Record that the attempt has succeeded. A command of an older `attempt` is refused."""

    attempt: int


class FailOwnerTask(Command, frozen=True):
    """Record that the attempt has failed permanently."""

    attempt: int
    error: str


class OwnProposal(Refused):
    """The person who has proposed an operation must not approve it."""

    sentences = (
        "Another person must approve the proposal. You must not approve your own.",
        "Eine andere Person muss den Vorschlag genehmigen. Den eigenen dürfen Sie nicht genehmigen.",
    )


class ProposalEnded(Refused):
    """The proposal is older than PROPOSAL_LASTS."""

    sentences = (
        "The proposal ended after 72 hours. Propose the operation again.",
        "Der Vorschlag ist nach 72 Stunden abgelaufen. Schlagen Sie den Vorgang erneut vor.",
    )


class OwnerTaskState(State, frozen=True):
    """Status and number of attempts; for a proposal that was not decided, its person and time."""

    status: Literal["unknown", "proposed", "rejected", "requested", "running", "done", "failed"] = "unknown"
    attempts: int = 0
    proposer: str = ""
    proposed_at: Instant | None = None


def decide(command: Command, task: OwnerTaskState, at: datetime) -> OwnerTaskEvent | None:
    """Return the event that follows, or None. Raises IllegalTransition."""
    match command, task.status:
        case RequestOwnerTask(), "unknown":
            return event_of(OwnerTaskRequested, command)
        case RequestOwnerTask(), _:
            return None
        case ApproveOwnerTask(), "proposed":
            return _approval(command, task)
        case RejectOwnerTask(), "proposed":
            return event_of(OwnerTaskRejected, command)
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


def _approval(command: ApproveOwnerTask, task: OwnerTaskState) -> OwnerTaskApproved:
    if command.user == task.proposer:
        raise OwnProposal
    if task.proposed_at is None or command.approved_at >= task.proposed_at + PROPOSAL_LASTS:
        raise ProposalEnded
    return event_of(OwnerTaskApproved, command)


def evolve(task: OwnerTaskState, event: OwnerTaskEvent) -> OwnerTaskState:
    """Return the state after the event.

    Approvals and starts that somebody has copied from other events do not begin a task again.
    """
    match event:
        case OwnerTaskRequested() if task.status != "unknown":
            return task
        case OwnerTaskApproved() if task.status != "proposed":
            return task
        case OwnerTaskStarted() if task.status not in ("requested", "running"):
            return task
        case OwnerTaskRequested() if event.preview_sha256:
            return OwnerTaskState(status="proposed", proposer=event.user, proposed_at=event.requested_at)
        case OwnerTaskRequested() | OwnerTaskApproved():
            return OwnerTaskState(status="requested")
        case OwnerTaskRejected():
            return OwnerTaskState(status="rejected")
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
    """Return the request with its MAC. The MAC covers the task's id, so it is valid only for this task."""
    return msgspec.structs.replace(request, mac=mac(*_covered(task_id, request)))


def is_authentic(request: OwnerTaskRequested, task_id: str, is_mac: Callable[..., bool]) -> bool:
    """Return whether the request's MAC was made for this task."""
    return is_mac(request.mac, *_covered(task_id, request))


def actor_of(user: str) -> str:
    """Return the actor in events that this person causes: a user's id, or a name of the command line."""
    return user if user.startswith(COMMAND_LINE) else f"user:{user}"


def approval_of(
    request: OwnerTaskRequested, task_id: str, user: str, at: datetime, mac: Callable[..., str]
) -> ApproveOwnerTask:
    """Return the approval with its MAC. The MAC covers the MAC of the request, so it is valid only for this request."""
    return ApproveOwnerTask(user=user, approved_at=at, mac=mac("owner task approval", task_id, request.mac, user, at))


def is_approved(
    request: OwnerTaskRequested, approvals: Sequence[OwnerTaskApproved], task_id: str, is_mac: Callable[..., bool]
) -> bool:
    """Return whether another person has approved the proposal in time.

    Checks the MAC, because an attacker could have appended the event.
    """
    return any(
        request.preview_sha256
        and request.requested_at is not None
        and approval.user != request.user
        and approval.approved_at < request.requested_at + PROPOSAL_LASTS
        and is_mac(approval.mac, "owner task approval", task_id, request.mac, approval.user, approval.approved_at)
        for approval in approvals
    )


def _covered(task_id: str, request: RequestOwnerTask | OwnerTaskRequested) -> tuple[str | datetime | None, ...]:
    arguments = msgspec.json.encode(request.arguments, order="sorted").decode()
    fields = (request.kind, arguments, request.user, request.session, request.reason, request.requested_at)
    preview = msgspec.json.encode(request.preview, order="sorted").decode()
    return ("owner task", task_id, *fields, preview, request.preview_sha256)


EVENTS: Events = {
    "owner_task_requested.v1": (OwnerTaskRequested, RequestOwnerTask),
    "owner_task_approved.v1": (OwnerTaskApproved, ApproveOwnerTask),
    "owner_task_rejected.v1": (OwnerTaskRejected, RejectOwnerTask),
    "owner_task_started.v1": (OwnerTaskStarted, StartOwnerTask),
    "owner_task_finished.v1": (OwnerTaskFinished, FinishOwnerTask),
    "owner_task_failed.v1": (OwnerTaskFailed, FailOwnerTask),
}
OWNER_TASK = Aggregate("owner-task", EVENTS, OwnerTaskState(), decide, evolve)
