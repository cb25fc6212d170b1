"""The run that a request's path names."""

import asyncio
import time

from starlette.requests import Request

from api.http.database import read
from api.http.errors import NotValid, not_found
from api.http.paths import identifier
from api.operation import V2
from api.services import Services
from projections.views.import_run import RunState, is_up, run_state
from schemas.base import Problem
from schemas.sentence import Sentence

LATE_S = 3.0
"""How long a question about a run waits for the projection, when it may not know the run yet."""
RUN_PATH = f"{V2}/runs/{{supplier}}/{{run}}/"


class KnownRuns:
    """Finds runs by their names."""

    def __init__(self, services: Services) -> None:
        self._pool = services.pool

    async def known(self, request: Request) -> RunState:
        """The run that the path names. Raises ApiError 404."""
        supplier, run = identifier(request, "supplier"), identifier(request, "run")
        state = await self.state(supplier, run)
        deadline = time.monotonic() + LATE_S
        while state is None and time.monotonic() < deadline:  # it may have begun just now
            if is_late := not await read(self._pool, is_up):
                await asyncio.sleep(0.1)
            state = await self.state(supplier, run)
            if not is_late:
                break
        if state is None:
            raise not_found()
        return state

    async def state(self, supplier: str, run: str) -> RunState | None:
        return await read(self._pool, run_state, supplier, run)


def run_not_valid(*problems: Problem) -> NotValid:
    """What refuses the parameters of a question about a run."""
    return NotValid(
        "validation_error",
        Sentence("The request could not be understood.", "Die Anfrage wurde nicht verstanden."),
        problems,
    )
