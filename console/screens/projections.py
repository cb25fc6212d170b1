"""What is derived from the log: how each projection stands, and asking for it to be verified, rebuilt or switched."""

from typing import Any
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from api.http.errors import not_found, query_not_valid
from console.access.people import EVERYBODY, OPERATORS
from console.access.visit import ROOT, Visit, action, page
from console.presentation.listing import command_line, import_address
from console.presentation.texts import N_
from console.screens.owner_words import outcome_names, told_tasks
from console.screens.paging import PlaceNumber, pages, place_in
from eventstore.aggregates.import_process import identity_of
from eventstore.aggregates.owner_task import OwnerTaskKind
from projections import PROJECTIONS
from projections.unlogged.typed_reasons import MAX_REASON
from projections.versions.overview import PARKED_PAGE, ParkedStream, parked_in, version_standings
from projections.views.owner_task import OwnerTask, owner_tasks
from schemas.base import Problem
from schemas.sentence import Sentence

VERSION_STATES = {
    "live": N_("live"),
    "building": N_("being built"),
    "ready": N_("ready"),
    "retired": N_("retired"),
    "outdated": N_("outdated"),
}
VERSION_TONES = {"live": "good", "building": "busy", "ready": "busy", "outdated": "warn"}
_KINDS: dict[str, OwnerTaskKind] = {
    "verify": "projection_verify",
    "rebuild": "projection_rebuild",
    "switch": "projection_switch",
}
_NAMES = {projection.name for projection in PROJECTIONS}
_NO_REASON = Sentence("Say why.", "Bitte einen Grund angeben.")
_NO_VERSION = Sentence(
    "There is no such version beside the live one.", "Diese Version gibt es neben der aktiven nicht."
)


@page("/projections/", roles=EVERYBODY, nav=N_("Projections"))
async def projection_list(visit: Visit) -> Response:
    """Every version of every projection."""
    standings = await visit.read(version_standings, PROJECTIONS)
    return visit.render(
        "projections.html",
        standings=[(one, f"{ROOT}/projections/{quote(one.name, safe='')}/") for one in standings],
        state_names=_names(visit),
        tones=VERSION_TONES,
        tasks=await told_tasks(visit, await _tasks(visit, "")),
        line=command_line("projections"),
    )


@page("/projections/{name}/", roles=EVERYBODY)
async def projection(visit: Visit) -> Response:
    """One projection: its versions, what is parked, and what can be asked for."""
    name = _name(visit)
    standings = [one for one in await visit.read(version_standings, PROJECTIONS) if one.name == name]
    after = place_in(visit, "parked-after", PlaceNumber) or 0

    async def left_out(connection: Any) -> list[ParkedStream]:
        reach = visit.person.reach
        return await parked_in(connection, name, suppliers=reach, after=after, limit=PARKED_PAGE + 1)

    parked = await visit.read(left_out)
    more_parked = parked[PARKED_PAGE - 1].position if len(parked) > PARKED_PAGE else None
    tasks = await _tasks(visit, name)
    told = await told_tasks(visit, tasks)
    response = visit.render(
        "projection.html",
        name=name,
        address=f"{ROOT}/projections/{quote(name, safe='')}/",
        standings=standings,
        beside=[one for one in standings if one.can_be_live],
        state_names=_names(visit),
        tones=VERSION_TONES,
        parked=[(one, _address(one.stream)) for one in parked[:PARKED_PAGE]],
        more_parked=pages(visit, "parked-after", more_parked, anchor="parked"),
        tasks=told,
        outcomes=[(one.name, outcome) for one in told if (outcome := msgspec.json.decode(one.task.outcome or "{}"))],
        outcome_names=outcome_names(visit._),
        may_ask=visit.person.reach is None,
        may_operate=visit.person.may(OPERATORS) and visit.person.reach is None,
        lines={
            "verify": command_line("projections", "verify", name),
            "rebuild": command_line("projections", "rebuild", name, "--no-switch"),
            "switch": command_line("projections", "switch", name, "--to", "…"),
        },
    )
    return visit.live(response, "tasks", is_live=any(task.is_open for task in tasks))


@action("/projections/{name}/verify/", roles=EVERYBODY)
async def verify_projection(visit: Visit) -> Response:
    """Ask whether it is what the log says."""
    return await _asked_for(visit, "verify")


@action("/projections/{name}/rebuild/", roles=OPERATORS)
async def rebuild_projection(visit: Visit) -> Response:
    """Ask for a new version beside the live one."""
    return await _asked_for(visit, "rebuild")


@action("/projections/{name}/switch/", roles=OPERATORS)
async def switch_projection(visit: Visit) -> Response:
    """Ask for another version to be live: a new one, or the one before."""
    return await _asked_for(visit, "switch")


async def _asked_for(visit: Visit, verb: str) -> Response:
    name = _name(visit)
    visit.require_all()
    reason, version = visit.form.text("reason")[:MAX_REASON], visit.form.text("version")
    if verb in ("rebuild", "switch") and not reason:
        raise query_not_valid(Problem("reason", "required", _NO_REASON))
    arguments = {"name": name}
    if version or verb == "switch":
        standings = await visit.read(version_standings, PROJECTIONS)
        if not any(one.name == name and one.can_be_live and str(one.version) == version for one in standings):
            raise query_not_valid(Problem("version", "invalid_choice", _NO_VERSION))
        arguments["version"] = version
    await visit.ask(_KINDS[verb], arguments, reason)
    to = f"{ROOT}/projections/{quote(name, safe='')}/"
    return visit.redirect(to, notice=visit._("It was asked for. The page shows how far it is."))


async def _tasks(visit: Visit, name: str) -> list[OwnerTask]:
    """The newest tasks; none for those who see some suppliers, since tasks concern all."""
    if visit.person.reach is not None:
        return []
    tasks: list[OwnerTask] = []
    for kind in _KINDS.values():
        tasks += await visit.read(owner_tasks, kind, {"name": name} if name else {}, 5)
    return sorted(tasks, key=lambda task: task.requested_at, reverse=True)[:6]


def _name(visit: Visit) -> str:
    name = visit.path("name")
    if name not in _NAMES:
        raise not_found()
    return name


def _names(visit: Visit) -> dict[str, str]:
    return {state: visit._(name) for state, name in VERSION_STATES.items()}


def _address(stream: str) -> str:
    """Where the page of an import's stream is; "" for others."""
    return import_address(*identity_of(stream)) if stream.startswith("import/") else ""


SCREENS = (
    projection_list,
    projection,
    verify_projection,
    rebuild_projection,
    switch_projection,
)
