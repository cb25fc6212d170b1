"""Proposals: operations that another person approves or rejects, each with its preview."""

from datetime import datetime
from functools import partial

import msgspec
from starlette.responses import Response

from api.http.errors import not_found
from console.access.people import DECIDERS
from console.access.requests import PREVIEW_TIMEOUT_S, RUNS_BEHIND, reason_texts_of, typed_reason
from console.access.visit import ROOT, Visit, action, page
from console.presentation.names import NAMES
from console.presentation.texts import N_
from console.screens.paging import TextKey, page_of
from console.screens.tasks import ShownTask, shown_tasks
from eventstore.aggregates.owner_task import PROPOSAL_LASTS, stream_of
from eventstore.clock import now
from projections.auxiliary.typed_reasons import write_reason
from projections.retention.reverting import RunsBehind
from projections.views.owner_task import count_proposals, open_proposals, owner_task
from workers.operations import OPERATIONS
from workers.proposals import ProposalFailed, approve, reject, request_of

AT_ONCE = 50


class ShownProposal(msgspec.Struct, frozen=True, kw_only=True):
    """A proposal with its preview from the log, and whether the user has proposed it."""

    shown: ShownTask
    preview: dict[str, int]
    reason: str
    ends_at: datetime
    is_own: bool
    may_decide: bool


@page("/proposals/", roles=DECIDERS, nav=N_("Proposals"))
async def proposals(visit: Visit) -> Response:
    """List the proposals that wait for a second person.

    Users who see only some suppliers see proposals about these suppliers.
    """
    query = partial(open_proposals, suppliers=visit.person.reach)
    tasks, more = await page_of(visit, "after", query, tuple[datetime, TextKey], AT_ONCE)
    reasons = await reason_texts_of(visit, {task.reason for task in tasks})
    listed = []
    for shown in await shown_tasks(visit, tasks):
        request = await visit.written(request_of, visit.services.ledger, shown.task.task_id)
        if request is None or request.requested_at is None:
            continue
        listed.append(
            ShownProposal(
                shown=shown,
                preview=request.preview,
                reason=reasons[shown.task.reason],
                ends_at=request.requested_at + PROPOSAL_LASTS,
                is_own=request.user == visit.person.user_id,
                may_decide=visit.person.may(OPERATIONS[request.kind].roles),
            )
        )
    total = await visit.read(count_proposals, visit.person.reach)
    return visit.render("proposals.html", proposals=listed, total=total, more=more)


@action("/proposals/{task}/{decision}/", roles=DECIDERS)
async def decide(visit: Visit) -> Response:
    """Approve or reject a proposal."""
    task_id, decision, ledger = visit.path("task"), visit.path("decision"), visit.services.ledger
    task = await visit.read(owner_task, task_id)
    if task is None or decision not in ("approve", "reject"):
        raise not_found()
    if visit.person.reach is not None and task.arguments.get("supplier") not in visit.person.reach:
        raise not_found()
    named = (ledger, visit.services.authority, task_id, visit.person.user_id)
    try:
        if decision == "approve":
            await visit.written_within(PREVIEW_TIMEOUT_S, approve, *named)
        else:
            typed = typed_reason(visit.person.user_id, stream_of(task_id), visit.reason(), now())
            await visit.written(reject, *named, typed.reason, lambda connection, _: write_reason(connection, typed))
    except ProposalFailed as failure:
        text = NAMES["task_errors"].get(str(failure), str(failure))
        raise visit.refusal(400, N_("Nothing was changed: %(error)s"), error=visit._(text)) from failure
    except RunsBehind:
        raise visit.refusal(503, RUNS_BEHIND) from None
    is_approved = decision == "approve"
    approved = N_("The operation was approved. This page shows its progress.")
    notice = visit._(approved if is_approved else N_("The proposal was rejected."))
    return visit.redirect(f"{ROOT}/tasks/" if is_approved else f"{ROOT}/proposals/", notice=notice)
