"""The system: processes, queue, lag of followers, database, disk, settings, limits and versions."""

import platform
import shutil
from pathlib import Path
from typing import Any

from starlette.responses import Response

from api.endpoints.health import failing_roles
from api.http.database import in_thread
from api.http.errors import not_found
from api.http.limits import LIMITS
from console.access.people import OPERATORS
from console.access.visit import Visit, page
from console.presentation.texts import N_
from console.screens.tasks import shown_tasks
from eventstore.aggregates.import_process import WAITING
from eventstore.clock import now
from eventstore.log.intake_stop import IntakeStop, intake_stop
from eventstore.log.ledger import Ledger
from eventstore.log.recorder import CODE_VERSION
from eventstore.operations.migrate import NEWEST
from projections import FOLLOWING
from projections.auxiliary.troubles import read_troubles
from projections.queries.vitals import Vitals, read_vitals
from projections.views.owner_task import open_owner_tasks

LEADER_NAMES = {
    "relay": N_("relay"),
    "sealer": N_("sealer"),
    "projector": N_("projector"),
    "ended imports": N_("ended imports"),
    "owner's tasks": N_("requested operations"),
}


@page("/system/", roles=OPERATORS, nav=N_("System"), is_whole=True)
async def system(visit: Visit) -> Response:
    """Show the state of the service to operators who see all suppliers."""
    if visit.person.reach is not None:
        raise not_found()
    folder = visit.console.settings.data_dir
    disk = await in_thread(_disk, folder) if folder else None
    state, stop = await in_thread(_vitals, visit.services.ledger)
    return visit.render(
        "system_live.html" if visit.is_partial else "system.html",
        state=state,
        stop=stop,
        leaders=[visit._(text) for name, text in LEADER_NAMES.items() if state.holders.get(name)],
        followers=sorted({**state.lags, **state.projection_lags}.items()),
        waiting=sum(number for _, status, number in state.imports if status in WAITING),
        tasks=await shown_tasks(visit, await visit.read(open_owner_tasks, 20)),
        dying=failing_roles(visit.services.roles_file),
        troubles=await visit.read(read_troubles),
        disk=disk,
        settings=visit.console.settings.shown,
        limits=LIMITS,
        versions=[
            ("importledger", CODE_VERSION),
            ("Python", platform.python_version()),
            (visit._("Schema"), NEWEST.removesuffix(".sql")),
        ],
        at=now(),
    )


def _vitals(ledger: Ledger) -> tuple[Vitals, IntakeStop | None]:
    with ledger.connection() as connection:
        names = tuple(projection.name for projection in FOLLOWING)
        return read_vitals(connection, names, with_work=True), intake_stop(connection)


def _disk(folder: Path) -> Any:
    """Return the disk usage of the folder's file system; None if the folder does not exist."""
    try:
        return shutil.disk_usage(folder)
    except OSError:
        return None
