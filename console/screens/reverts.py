"""Reverts and releases of a supplier's accounts: a preview with numbers, and the request to the relay."""

from collections.abc import Callable

from starlette.responses import Response

from api.http.errors import not_found
from console.access.people import OPERATORS
from console.access.requests import RUNS_BEHIND, request_task, requested_notice
from console.access.visit import ROOT, Visit, action, page
from console.screens.imports import MOST_AT_ONCE
from eventstore.aggregates.owner_task import OwnerTaskKind
from eventstore.log.ledger import Ledger
from projections.queries.supplier_overview import counts_by_status
from projections.retention.reverting import RunsBehind, Selection, preview, releasable
from projections.views.import_run import run_state
from projections.views.import_status import import_statuses

_WITHIN_S = 60.0
VERBS: dict[str, OwnerTaskKind] = {"revert": "revert", "release": "release"}


@page("/suppliers/{supplier}/decide/", roles=OPERATORS)
async def preview_accounts(visit: Visit) -> Response:
    """Show how many accounts can be reverted, cannot be reverted, and have failed, or how many would be released."""
    verb, selection = await _selection(visit, visit.query)
    number = await _number(visit, selection)
    reverted, count = None, 0
    if verb == "release":
        count = await visit.written_within(_WITHIN_S, _releasable, visit.services.ledger, selection)
    elif number <= MOST_AT_ONCE:
        try:
            reverted = await visit.written_within(_WITHIN_S, preview, visit.services.ledger, selection)
        except RunsBehind:
            raise visit.refusal(503, RUNS_BEHIND) from None
    return visit.render(
        "accounts_decide.html",
        verb=verb,
        selection=selection,
        external=next(iter(selection.externals), ""),
        reverted=reverted,
        kept=sum(reverted.kept.values()) if reverted else 0,
        number=reverted.reverted if reverted else count,
        most=MOST_AT_ONCE,
        processed=await _processed(visit, selection) if count > MOST_AT_ONCE else None,
    )


@action("/suppliers/{supplier}/decided/", roles=OPERATORS)
async def decide_accounts(visit: Visit) -> Response:
    """Request that the relay reverts or releases the accounts.

    The user must type the name, since a release cannot be undone.
    """
    verb, selection = await _selection(visit, visit.form.text)
    reason = visit.reason()
    names = {"external": next(iter(selection.externals), ""), "run": selection.run}
    named = {name: value for name, value in names.items() if value}
    visit.require_confirmation(next(iter(named.values()), selection.supplier))
    await request_task(visit, VERBS[verb], {"supplier": selection.supplier} | named, reason)
    return visit.redirect(f"{ROOT}/tasks/", notice=requested_notice(visit, VERBS[verb]))


async def _selection(visit: Visit, field: Callable[[str], str]) -> tuple[str, Selection]:
    """Return the verb and the accounts in the fields of a form. Raises ApiError 404 if the accounts do not exist."""
    verb, supplier = field("verb") or "release", visit.path("supplier")
    run, external = field("run"), field("external")
    if "\0" in run + external:
        raise not_found()
    if verb not in VERBS or await visit.services.directory.supplier(supplier) is None:
        raise not_found()
    if (verb == "revert") != bool(run or external) and not (verb == "release" and run and not external):
        raise not_found()
    if external and not await visit.read(import_statuses, [(supplier, external)]):
        raise not_found()
    if run and await visit.read(run_state, supplier, run) is None:
        raise not_found()
    return verb, Selection(supplier=supplier, run="" if external else run, externals=(external,) if external else ())


async def _number(visit: Visit, selection: Selection) -> int:
    """Return the number of accounts of the selection; 0 for a whole supplier."""
    state = await visit.read(run_state, selection.supplier, selection.run) if selection.run else None
    return state.record.total if state else len(selection.externals)


async def _processed(visit: Visit, selection: Selection) -> int:
    """Return the number of processed accounts of a run or supplier, including released accounts."""
    if selection.run:
        state = await visit.read(run_state, selection.supplier, selection.run)
        return state.record.by_status.get("PROCESSED", 0) if state else 0
    counts = await visit.read(counts_by_status, [selection.supplier])
    return counts.get(selection.supplier, {}).get("PROCESSED", 0)


def _releasable(ledger: Ledger, selection: Selection) -> int:
    with ledger.connection() as connection:
        return releasable(connection, selection.supplier, selection.run, most=MOST_AT_ONCE + 1)
