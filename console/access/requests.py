"""Requests to the relay for operations that need the rights of the database's owner, and typed reasons."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from psycopg import Connection

from console.access.visit import Visit
from console.presentation.names import NAMES
from console.presentation.texts import N_
from eventstore.aggregates import import_process, owner_task
from eventstore.aggregates.owner_task import OwnerTaskKind
from eventstore.clock import now
from eventstore.events import Recorded
from eventstore.log.ledger import WriteRows
from projections.auxiliary.typed_reasons import MAX_REASON, TypedReason, new_reason_id, texts_of, write_reason
from projections.retention.reverting import RunsBehind
from projections.views.owner_task import owner_task as read_task
from workers.proposals import with_preview

PREVIEW_TIMEOUT_S = 60.0
TASK_TIMEOUT_S = 10.0
"""Longest wait of a page for the relay [seconds]. The relay carries out the task even if it takes longer."""
POLL_S = 0.1
RUNS_BEHIND = N_(
    "The accounts of the run are not all known yet: a relay must be running. Nothing was changed; try again."
)


def typed_reason(user_id: str, subject: str, content: str, at: datetime) -> TypedReason:
    """Return the reason as a row with a new id. The row is deleted when the user or `subject`, a stream, is erased."""
    return TypedReason(reason=new_reason_id(), user_id=user_id, subject=subject, at=at, content=content[:MAX_REASON])


async def write_typed(visit: Visit, content: str, subject: str) -> str:
    """Write a typed reason about a stream. Return its id, which the event names, or "" for no reason."""
    if not content:
        return ""
    reason = typed_reason(visit.person.user_id, subject, content, now())

    def write() -> None:
        with visit.services.ledger.connection() as connection:
            write_reason(connection, reason)

    await visit.written(write)
    return reason.reason


async def reason_texts_of(visit: Visit, reasons: Iterable[str]) -> dict[str, str]:
    """Return the text of each reason: of a typed reason its stored text, or "" if it was erased; of a reason from the
    command line the reason itself.
    """
    return await visit.read(texts_of, set(reasons))


async def request_task(
    visit: Visit,
    kind: OwnerTaskKind,
    arguments: dict[str, str],
    reason: str = "",
    *,
    write_details: WriteRows | None = None,
) -> str:
    """Request an operation from the relay, and return the id of the task. `write_details` is written with the request.

    The request is a proposal if a second person must approve this kind of task. Raises ApiError 503 if the preview is
    not known yet. A form that is sent again requests no second task. A typed reason is deleted with the person whom the
    task is about, except the reason of an erasure. A user who has signed in at an OpenID provider makes requests
    without a session.
    """
    user_id = visit.opened.user_id if visit.opened else arguments["user_id"]
    task_id, at = f"t_{visit.form_secret(kind).hex()[:16]}", now()
    stream = owner_task.stream_of(task_id)
    is_about_person = "external" in arguments and kind != "erase"
    subject = import_process.stream_of(arguments["supplier"], arguments["external"]) if is_about_person else stream
    typed = typed_reason(user_id, subject, reason, at)

    def write_rows(connection: Connection[Any], events: Sequence[Recorded]) -> None:
        if reason:
            write_reason(connection, typed)
        if write_details is not None:
            write_details(connection, events)

    command = owner_task.RequestOwnerTask(
        kind=kind,
        arguments=arguments,
        user=user_id,
        reason=typed.reason if reason else "",
        session=visit.opened.session if visit.opened else "",
        requested_at=at,
    )
    if kind in visit.console.settings.four_eyes:
        ledger = visit.services.ledger
        try:
            command = await visit.written_within(PREVIEW_TIMEOUT_S, with_preview, ledger, command)
        except RunsBehind:
            raise visit.refusal(503, RUNS_BEHIND) from None
    command = owner_task.with_mac(command, task_id, visit.services.authority.mac)
    await visit.execute(stream, command, write_rows=write_rows, by=f"user:{user_id}")
    return task_id


def requested_notice(visit: Visit, kind: OwnerTaskKind) -> str:
    """Return the notice after `request_task`."""
    if kind in visit.console.settings.four_eyes:
        return visit._("The operation was proposed. Another person must approve it.")
    return visit._("The operation was requested. This page shows its progress.")


async def finished(visit: Visit, task_id: str) -> bool:
    """Wait until the relay has carried out a task.

    Return False after TASK_TIMEOUT_S, so that a page shows the progress of the task. Raises ApiError 400 if the relay
    refuses the task.
    """
    deadline = time.monotonic() + TASK_TIMEOUT_S
    while (task := await visit.read(read_task, task_id)) is None or task.is_open:
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(POLL_S)
    if task.status == "FAILED":
        reason = NAMES["task_errors"].get(task.error, task.error)
        raise visit.refusal(400, N_("The operation failed: %(error)s"), error=visit._(reason))
    return True
