"""The system: findings of `importledger doctor`, running jobs, settings, limits and versions."""

import platform

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
from eventstore.log.intake_stop import IntakeStop, intake_stop
from eventstore.log.ledger import Ledger
from eventstore.log.recorder import CODE_VERSION
from eventstore.operations.migrate import NEWEST
from projections import FOLLOWING
from projections.queries.vitals import Vitals, read_vitals
from projections.views.owner_task import open_owner_tasks


@page("/system/", roles=OPERATORS, nav=N_("System"), is_whole=True)
async def system(visit: Visit) -> Response:
    """Show the findings of `doctor` and the running jobs to operators who see all suppliers."""
    if visit.person.reach is not None:
        raise not_found()
    checkup = visit.console.checkup
    await checkup.refresh()
    state, stop = await in_thread(_vitals, visit.services.ledger)
    return visit.render(
        "system_live.html" if visit.is_partial else "system.html",
        state=state,
        stop=stop,
        checkup=checkup,
        waiting=sum(number for _, status, number in state.imports if status in WAITING),
        tasks=await shown_tasks(visit, await visit.read(open_owner_tasks, 20)),
        dying=failing_roles(visit.services.roles_file),
        settings=visit.console.settings.shown,
        limits=LIMITS,
        versions=[
            ("importledger", CODE_VERSION),
            ("Python", platform.python_version()),
            (visit._("Schema"), NEWEST.removesuffix(".sql")),
        ],
    )


def _vitals(ledger: Ledger) -> tuple[Vitals, IntakeStop | None]:
    with ledger.connection() as connection:
        names = tuple(projection.name for projection in FOLLOWING)
        return read_vitals(connection, names, with_work=True), intake_stop(connection)
