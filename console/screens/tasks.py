"""Requested operations: the user, the reason, the progress and the outcome of each."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import msgspec
from starlette.responses import Response

from console.access.people import OPERATORS, READERS
from console.access.requests import reason_texts_of
from console.access.visit import ROOT, Visit, page
from console.presentation.listing import import_address
from console.presentation.rendering import segment
from console.presentation.timeline import actor
from console.screens.paging import TextKey, page_of
from eventstore.aggregates.owner_task import COMMAND_LINE
from eventstore.clock import now
from projections.auxiliary.user_details import details_of
from projections.queries.reconciliation import remaining_s
from projections.views.owner_task import OwnerTask, count_owner_tasks, owner_tasks_page

AT_ONCE = 50


@page("/tasks/", roles=READERS)
async def tasks(visit: Visit) -> Response:
    """Show a page of the requested operations.

    Users who see only some suppliers see operations about these suppliers.
    """
    query = partial(owner_tasks_page, suppliers=visit.person.reach)
    rows, more = await page_of(visit, "after", query, tuple[datetime, TextKey], AT_ONCE)
    return visit.render(
        "tasks.html",
        total=await visit.read(count_owner_tasks, visit.person.reach),
        tasks=await shown_tasks(visit, rows),
        more=more,
    )


class ShownTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task with the subject, user and reason that a page shows."""

    task: OwnerTask
    subject: str
    address: str
    """Address of the subject's page, or ""."""
    user: str
    eta_s: float | None
    """Estimated seconds until the end, at the rate since the task has started; None before the first progress."""
    numbers: dict[str, int]
    """Numbers of the outcome of a revert, including accounts that were not reverted."""
    reason: str | None
    """Reason of the task; None if it is masked because it may name a person; "" without a reason."""
    decided_by: str
    """Person who has approved or rejected a proposal, or ""."""
    decided_for: str
    """Reason of a rejection, or ""."""


async def shown_tasks(visit: Visit, tasks: Sequence[OwnerTask]) -> list[ShownTask]:
    """Return the tasks with the subject, user and reason that a page shows."""
    ids = {user for task in tasks for user in (task.user_id, task.decided_by) if user}
    people = {user: row.display_name for user, row in (await visit.read(details_of, ids)).items()} if ids else {}
    named = {reason or "" for task in tasks for reason in (task.reason, task.decided_for)}
    reasons = await reason_texts_of(visit, named)
    shown = []
    for task in tasks:
        subject, address = _subject(task, may_operate=visit.person.may(OPERATORS))
        is_about_person = "external" in task.arguments and task.kind != "erase"
        shown.append(
            ShownTask(
                task=task,
                subject=subject,
                address=address,
                eta_s=remaining_s(task.done, task.total, (now() - task.modified_at).total_seconds()),
                numbers=_numbers(task),
                user=_person(visit, task.user_id, people),
                decided_for=reasons[task.decided_for or ""],
                decided_by=_person(visit, task.decided_by, people) if task.decided_by else "",
                reason=None if is_about_person and task.reason else reasons[task.reason],
            )
        )
    return shown


def _person(visit: Visit, user: str, people: Mapping[str, str]) -> str:
    """Return the name of a user, or of a person of the command line."""
    return actor(user, visit._, {}) if user.startswith(COMMAND_LINE) else people.get(user, user)


def _numbers(task: OwnerTask) -> dict[str, int]:
    if task.kind != "revert" or task.status != "DONE":
        return {}
    outcome: dict[str, Any] = msgspec.json.decode(task.outcome)
    return {"reverted": outcome["reverted"], "failed": outcome["failed"], **outcome["kept"]}


def _subject(task: OwnerTask, *, may_operate: bool) -> tuple[str, str]:
    match task.arguments:
        case {"supplier": supplier, "external": external}:
            return f"{supplier} {external}", import_address(supplier, external)
        case {"supplier": supplier, "run": run}:
            return f"{supplier} {run}", f"{ROOT}/runs/{segment(supplier)}/{segment(run)}/"
        case {"supplier": supplier}:
            return supplier, f"{ROOT}/suppliers/{supplier}/"
        case {"participant": participant}:
            return participant, ""
        case {"name": name}:
            return name, f"{ROOT}/projections/{name}/"
        case {"user_id": user_id}:
            return user_id, f"{ROOT}/users/{user_id}/" if may_operate else ""
        case {"key_id": key_id}:
            return key_id, f"{ROOT}/keys/{key_id}/" if may_operate else ""
        case _:
            return "", f"{ROOT}/proof/" if task.kind == "log_verify" else ""
