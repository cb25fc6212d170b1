"""Proposals: operations that a second person must approve.

A proposal has a digest of the accounts or versions that its operation would change. The digest is computed when the
operation is proposed, when it is approved, and when the relay carries it out. If the digest differs, the operation is
not carried out.
"""

import hashlib
from collections.abc import Callable, Mapping

import msgspec

from eventstore.aggregates.import_process import SubjectErased
from eventstore.aggregates.import_process import stream_of as import_stream
from eventstore.aggregates.owner_task import (
    ApproveOwnerTask,
    OwnerTaskApproved,
    OwnerTaskRequested,
    OwnProposal,
    RejectOwnerTask,
    RequestOwnerTask,
    actor_of,
    approval_of,
    is_approved,
    is_authentic,
    stream_of,
)
from eventstore.aggregates.participant import ContactsErased
from eventstore.aggregates.supplier import AccountsReleased
from eventstore.aggregates.supplier import stream_of as supplier_stream
from eventstore.aggregates.user import SessionsEnded, UserDisabled, UserErased
from eventstore.aggregates.user import stream_of as user_stream
from eventstore.clock import now
from eventstore.errors import IllegalTransition, OperatorError
from eventstore.log.authority import AuthorityKey
from eventstore.log.ledger import Ledger, Loaded, WriteRows
from projections.retention.reverting import preview, releasable_numbers
from projections.versions.versions import live_version, versions
from workers.operations import imports_of, may_request, selection_of

MANY = 100
"""Imports of a bulk retry or cancel without a second person.

More imports need a second person if `IMPORTLEDGER_FOUR_EYES` lists the action.
"""


class ProposalFailed(OperatorError):
    """A proposal cannot be approved, rejected or carried out. The message is the reason."""


CHANGED = "what would happen has changed since the proposal: propose it again"
NOT_ALLOWED = "the user must have the right to do this"
DECIDED = "the proposal was decided already"
NOT_APPROVED = "a second person must approve the operation"
SAME_USER = "one user could have acted as both persons: another person must approve the operation"


Subjects = list[str]
"""Names of the accounts or versions that an operation would change, in a fixed order."""


def digest_of(kind: str, values: Mapping[str, str], subjects: Subjects) -> str:
    """Return the SHA-256 over an operation and its subjects."""
    return hashlib.sha256(msgspec.json.encode((kind, sorted(values.items()), subjects))).hexdigest()


def with_preview(ledger: Ledger, request: RequestOwnerTask) -> RequestOwnerTask:
    """Return the request as a proposal, with a preview of its present effect. Raises RunsBehind, StoreUnavailable."""
    numbers, subjects = _PREVIEWS[request.kind](ledger, request.kind, request.arguments)
    sha256 = digest_of(request.kind, request.arguments, subjects)
    return msgspec.structs.replace(request, preview=numbers, preview_sha256=sha256)


def request_of(ledger: Ledger, task_id: str) -> OwnerTaskRequested | None:
    """Return the request of a task from the log, since a row of a view could have been changed; None if unknown."""
    first = next(iter(ledger.history(stream_of(task_id))), None)
    return first.event if first is not None and isinstance(first.event, OwnerTaskRequested) else None


def approve(ledger: Ledger, authority: AuthorityKey, task_id: str, user: str) -> None:
    """Approve a proposal. Raises ProposalFailed, OwnProposal, ProposalEnded."""
    request = _authentic(ledger, authority, task_id, user)
    if ledger.load([stream_of(task_id)])[stream_of(task_id)].state.status != "proposed":
        raise ProposalFailed(DECIDED)
    if request.user == user:
        raise OwnProposal
    if not are_independent(ledger, request.user, user):
        raise ProposalFailed(SAME_USER)
    require_unchanged(ledger, request)
    _decide(ledger, task_id, approval_of(request, task_id, user, now(), authority.mac), None)


def reject(
    ledger: Ledger,
    authority: AuthorityKey,
    task_id: str,
    user: str,
    reason: str,
    write_rows: WriteRows | None = None,
) -> None:
    """Reject a proposal. Raises ProposalFailed."""
    _authentic(ledger, authority, task_id, user)
    _decide(ledger, task_id, RejectOwnerTask(user=user, reason=reason), write_rows)


def _decide(
    ledger: Ledger, task_id: str, command: ApproveOwnerTask | RejectOwnerTask, write_rows: WriteRows | None
) -> None:
    try:
        ledger.execute(stream_of(task_id), command, at=now(), by=actor_of(command.user), write_rows=write_rows)
    except IllegalTransition:
        raise ProposalFailed(DECIDED) from None


def require_approval(ledger: Ledger, authority: AuthorityKey, task_id: str, request: OwnerTaskRequested) -> None:
    """Raise ProposalFailed unless another person with the right to the same request has approved it in time."""
    events = [recorded.event for recorded in ledger.history(stream_of(task_id))]
    approvals = [
        event
        for event in events
        if isinstance(event, OwnerTaskApproved) and is_approved(request, [event], task_id, authority.is_mac)
    ]
    if not approvals:
        raise ProposalFailed(NOT_APPROVED)
    if not all(may_request(ledger, msgspec.structs.replace(request, user=approval.user)) for approval in approvals):
        raise ProposalFailed(NOT_ALLOWED)
    if not all(are_independent(ledger, request.user, approval.user) for approval in approvals):
        raise ProposalFailed(SAME_USER)


def are_independent(ledger: Ledger, first: str, second: str) -> bool:
    """Return False if one user of the console could have acted as both persons."""
    return _possible_users(ledger, first).isdisjoint(_possible_users(ledger, second))


def _possible_users(ledger: Ledger, person: str) -> set[str]:
    """Return the person, and users who could have signed in as this person.

    Users who created, changed or enabled a person, or issued a link for the person, could have signed in as this
    person. So could all who could have signed in as one of these users. Disabling a person gives no access.
    """
    found, waiting = set[str](), [person]
    while waiting:
        if (user := waiting.pop()) in found:
            continue
        found.add(user)
        waiting += [
            recorded.caused_by.removeprefix("user:")
            for recorded in ledger.history(user_stream(user))
            if recorded.caused_by.startswith("user:")
            and not isinstance(recorded.event, UserDisabled | SessionsEnded | UserErased)
        ]
    return found


def require_unchanged(ledger: Ledger, request: OwnerTaskRequested) -> Subjects:
    """Return the subjects of the proposal. Raises ProposalFailed if the operation would now change other subjects."""
    _, subjects = _PREVIEWS[request.kind](ledger, request.kind, request.arguments)
    if digest_of(request.kind, request.arguments, subjects) != request.preview_sha256:
        raise ProposalFailed(CHANGED)
    return subjects


def require_nothing_more(ledger: Ledger, task_id: str, request: OwnerTaskRequested, saved: Subjects) -> Subjects:
    """Return the subjects of a further attempt: the saved subjects, or no subjects after a completed release.

    Reverts, retries and cancellations change only the saved subjects. Raises ProposalFailed if another operation is
    incomplete and would change more than the saved subjects.
    """
    kind, values = request.kind, request.arguments
    if kind in ("revert", "retry", "cancel"):
        return saved
    if kind == "release" and _is_released(ledger, task_id, request):
        return []
    _, subjects = _PREVIEWS[kind](ledger, kind, values)
    match kind:
        case "complete":
            is_done = subjects[0] == "complete"
        case "projection_switch":
            is_done = subjects[0] == values["version"]
        case "erase":
            history = ledger.history(values.get("participant") or import_stream(values["supplier"], values["external"]))
            is_done = any(isinstance(recorded.event, SubjectErased | ContactsErased) for recorded in history)
        case _:
            is_done = False
    if not is_done and not set(subjects) <= set(saved):
        raise ProposalFailed(CHANGED)
    return saved


def _is_released(ledger: Ledger, task_id: str, request: OwnerTaskRequested) -> bool:
    """Return whether an earlier attempt has released the accounts."""
    proposed = ledger.history(stream_of(task_id))[0].position
    return any(
        isinstance(recorded.event, AccountsReleased)
        and recorded.position > proposed
        and (recorded.event.reason, recorded.caused_by) == (request.reason, actor_of(request.user))
        for recorded in ledger.history(supplier_stream(request.arguments["supplier"]))
    )


def _authentic(ledger: Ledger, authority: AuthorityKey, task_id: str, user: str) -> OwnerTaskRequested:
    """Return the proposal that this user may decide. Raises ProposalFailed."""
    request = request_of(ledger, task_id)
    if request is None or not request.preview_sha256 or not is_authentic(request, task_id, authority.is_mac):
        raise ProposalFailed(f"there is no proposal {task_id}")
    if not may_request(ledger, msgspec.structs.replace(request, user=user)):
        raise ProposalFailed(NOT_ALLOWED)
    return request


Preview = tuple[dict[str, int], Subjects]
"""Numbers that the second person sees, and the subjects."""


def _of_revert(ledger: Ledger, kind: str, values: Mapping[str, str]) -> Preview:
    numbers: list[str] = []
    result = preview(ledger, selection_of(values), found=numbers.extend)
    return {"revertible": result.reverted, "failed": result.failed, **result.kept}, numbers


def _of_release(ledger: Ledger, kind: str, values: Mapping[str, str]) -> Preview:
    with ledger.connection() as connection:
        numbers = releasable_numbers(connection, values["supplier"], values.get("run", ""))
    return {"released": len(numbers)}, numbers


def _of_complete(ledger: Ledger, kind: str, values: Mapping[str, str]) -> Preview:
    numbers, accounts = _of_release(ledger, kind, values)
    stream = supplier_stream(values["supplier"])
    return numbers, [ledger.load([stream])[stream].state.status, *accounts]


def _of_erasure(ledger: Ledger, kind: str, values: Mapping[str, str]) -> Preview:
    if "participant" in values:
        stream = values["participant"]
        return {"erased": 1}, [str(ledger.load([stream])[stream].version)]
    stream = import_stream(values["supplier"], values["external"])
    loaded = ledger.try_load([stream])[stream]
    staged = loaded.state.staged if isinstance(loaded, Loaded) else None  # an unreadable account can be erased
    return {"erased": 1}, [staged.payload_sha256 if staged else ""]


def _of_switch(ledger: Ledger, kind: str, values: Mapping[str, str]) -> Preview:
    with ledger.connection() as connection:
        former = live_version(connection, values["name"]).version
        present = versions(connection, values["name"])
    chosen = [str(version.built_at.timestamp()) for version in present if str(version.version) == values["version"]]
    return {"former": former, "version": int(values["version"])}, [str(former), *chosen]


def _of_imports(ledger: Ledger, kind: str, values: Mapping[str, str]) -> Preview:
    found = imports_of(ledger, kind, values)
    return {"imports": len(found)}, found


_PREVIEWS: Mapping[str, Callable[[Ledger, str, Mapping[str, str]], Preview]] = {
    "revert": _of_revert,
    "release": _of_release,
    "erase": _of_erasure,
    "complete": _of_complete,
    "projection_switch": _of_switch,
    "retry": _of_imports,
    "cancel": _of_imports,
}
