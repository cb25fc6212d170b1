"""Everything that was asked for of the database's owner: by whom and why, how far it is, and what came of it."""

from datetime import datetime
from typing import Any

from starlette.responses import Response

from console.access.people import EVERYBODY
from console.access.visit import Visit, page
from console.screens.owner_words import told_tasks
from console.screens.paging import PlaceText, pages, place_in
from projections.views.owner_task import OwnerTask, owner_tasks_page

AT_ONCE = 50


@page("/tasks/", roles=EVERYBODY)
async def tasks(visit: Visit) -> Response:
    """A page of the tasks; for those who see some suppliers, of tasks about these."""
    after = place_in(visit, "after", tuple[datetime, PlaceText])

    async def asked(connection: Any) -> list[OwnerTask]:
        return await owner_tasks_page(connection, visit.person.reach, after=after, limit=AT_ONCE + 1)

    rows = await visit.read(asked)
    return visit.render(
        "tasks.html",
        tasks=await told_tasks(visit, rows[:AT_ONCE]),
        more=pages(visit, "after", rows[AT_ONCE - 1].place if len(rows) > AT_ONCE else None),
    )


SCREENS = (tasks,)
