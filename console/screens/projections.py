"""Projections: their versions, and requests to verify, rebuild or switch one."""

from functools import partial

import msgspec
from starlette.responses import Response

from api.http.database import in_thread
from api.http.errors import not_found
from console.access.people import OPERATORS, READERS
from console.access.requests import request_task, requested_notice
from console.access.visit import ROOT, Visit, action, page
from console.presentation.listing import import_address
from console.presentation.texts import N_
from console.screens.paging import NumberKey, page_of
from console.screens.tasks import shown_tasks
from eventstore.aggregates.import_process import identity_of
from eventstore.aggregates.owner_task import OwnerTaskKind
from projections import PROJECTIONS
from projections.auxiliary.typed_reasons import MAX_REASON
from projections.versions.overview import PARKED_PAGE, VersionStanding, parked_in, version_standings
from projections.views.owner_task import OwnerTask, owner_tasks

_KINDS: tuple[OwnerTaskKind, ...] = ("projection_verify", "projection_rebuild", "projection_switch")
_NAMES = {projection.name for projection in PROJECTIONS}


async def _standings(visit: Visit) -> list[VersionStanding]:
    def read() -> list[VersionStanding]:
        with visit.services.ledger.connection() as connection:
            return version_standings(connection, PROJECTIONS)

    return await in_thread(read)


@page("/projections/", roles=READERS, nav=N_("Views"))
async def projection_list(visit: Visit) -> Response:
    """List every version of every projection."""
    return visit.render(
        "projections.html",
        standings=await _standings(visit),
        tasks=await shown_tasks(visit, await _tasks(visit, "")),
    )


@page("/projections/{name}/", roles=READERS)
async def projection(visit: Visit) -> Response:
    """Show a projection: its versions, its parked streams, and forms that request operations."""
    name, person = _name(visit), visit.person
    standings = [row for row in await _standings(visit) if row.name == name]
    query = partial(parked_in, name=name, suppliers=person.reach)
    parked, more = await page_of(
        visit, "parked-after", query, NumberKey, PARKED_PAGE, key_attribute="position", anchor="parked"
    )
    tasks = await _tasks(visit, name)
    shown = await shown_tasks(visit, tasks)
    response = visit.render(
        "projection.html",
        name=name,
        standings=standings,
        others=[row for row in standings if row.can_be_live],
        parked=[(row, _address(row.stream)) for row in parked],
        more_parked=more,
        tasks=shown,
        outcomes=[
            (row.task.kind, outcome)
            for row in shown
            if row.task.status == "DONE" and (outcome := msgspec.json.decode(row.task.outcome or "{}"))
        ],
        may_ask=person.reach is None,
        may_operate=person.may(OPERATORS) and person.reach is None,
    )
    return visit.live(response, "tasks", is_live=any(task.is_open for task in tasks))


@action("/projections/{name}/verify/", roles=READERS)
async def verify_projection(visit: Visit) -> Response:
    """Request a comparison of the view with the log."""
    visit.require_all()
    return await _request(visit, "projection_verify", visit.form.text("reason")[:MAX_REASON])


@action("/projections/{name}/rebuild/", roles=OPERATORS)
async def rebuild_projection(visit: Visit) -> Response:
    """Request a new version beside the live one."""
    visit.require_all()
    return await _request(visit, "projection_rebuild", visit.reason())


@action("/projections/{name}/switch/", roles=OPERATORS)
async def switch_projection(visit: Visit) -> Response:
    """Request a switch to another version: a new one, or the previous one."""
    visit.require_all()
    name, reason, version = _name(visit), visit.reason(), visit.form.text("version")
    standings = await _standings(visit)
    if not any(row.name == name and row.can_be_live and str(row.version) == version for row in standings):
        raise visit.invalid("version", N_("The chosen version of the view must be ready or retired."), "invalid_choice")
    return await _request(visit, "projection_switch", reason, version=version)


async def _request(visit: Visit, kind: OwnerTaskKind, reason: str, **more: str) -> Response:
    name = _name(visit)
    await request_task(visit, kind, {"name": name} | more, reason)
    return visit.redirect(f"{ROOT}/projections/{name}/", notice=requested_notice(visit, kind))


async def _tasks(visit: Visit, name: str) -> list[OwnerTask]:
    """Return the newest tasks.

    Users who see only some suppliers get no tasks, because these tasks concern all suppliers.
    """
    if visit.person.reach is not None:
        return []
    tasks: list[OwnerTask] = []
    for kind in _KINDS:
        tasks += await visit.read(owner_tasks, kind, {"name": name} if name else {}, 5)
    return sorted(tasks, key=lambda task: task.requested_at, reverse=True)[:6]


def _name(visit: Visit) -> str:
    name = visit.path("name")
    if name not in _NAMES:
        raise not_found()
    return name


def _address(stream: str) -> str:
    """Return the address of the import with this stream; "" for other streams."""
    return import_address(*identity_of(stream)) if stream.startswith("import/") else ""
