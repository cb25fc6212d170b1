"""Runs: the progress and results of submissions under one name."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from functools import partial

from psycopg_pool import AsyncConnectionPool
from starlette.requests import Request
from starlette.responses import Response

from api.access.auth import READERS
from api.admission import Call
from api.bulk.receipts import encode_line
from api.description.problem_sentences import with_sentence
from api.endpoints.support_queries import LIMIT, NO_PLACE, next_page
from api.http.concurrency_limit import ConcurrencyLimit
from api.http.database import read
from api.http.errors import not_found
from api.http.event_stream import KEEP_ALIVE_S, EventStream, ServerEvent
from api.http.languages import Language, language_headers, language_of
from api.http.limits import MAX_FOLLOWING_AT_ONCE, MAX_FOLLOWING_OF_ONE
from api.http.lists import ListFormat
from api.http.paths import identifier
from api.http.responses import encoded, json_response
from api.http.status_codes import ApiError
from api.operation import EVENTS, STATUS, V2, Parameter, operation
from api.services import Endpoint, Services
from eventstore.aggregates.import_process import STATUSES
from eventstore.clock import now
from projections.views.import_run import RunSortKey, RunState, is_caught_up, run_imports, run_state, runs_page
from schemas.run import RunImport, RunRecord
from schemas.sentence import Sentence

EVERY_S = 1.0
"""Shortest time between two events of a stream [seconds]."""
QUIET = timedelta(seconds=2)
"""A run is finished when no import waits and no account has arrived for this time."""
_FULL = Sentence("Too many follow runs at the moment.", "Im Augenblick verfolgen zu viele einen Lauf.")
LATE_S = 3.0
"""Longest wait for the projection, if it may not have the run yet [seconds]."""
RUN_PATH = f"{V2}/runs/{{supplier}}/{{run}}/"
_STATUS = Parameter(
    name="status",
    description="Only imports in this state.",
    schema={"type": "string", "enum": sorted(STATUSES)},
)

_AFTER = Parameter(
    name="after",
    description="Last run of the previous page, from its link.",
    schema={"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
    default="",
    sentence=NO_PLACE,
)


async def known_run(pool: AsyncConnectionPool, request: Request) -> RunState:
    """Return the run in the path. Raises ApiError 404."""
    supplier, run = identifier(request, "supplier"), identifier(request, "run")
    state = await read(pool, run_state, supplier, run)
    deadline = time.monotonic() + LATE_S
    while state is None and time.monotonic() < deadline:  # the run may have just begun
        if is_late := not await read(pool, is_caught_up):
            await asyncio.sleep(0.1)
        state = await read(pool, run_state, supplier, run)
        if not is_late:
            break
    if state is None:
        raise not_found()
    return state


class Runs(Endpoint):
    """The handlers of …/runs/."""

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._following = ConcurrencyLimit(MAX_FOLLOWING_AT_ONCE, MAX_FOLLOWING_OF_ONE, _FULL, retry_after_s=5)

    @operation(
        "GET",
        f"{V2}/runs/{{supplier}}/",
        STATUS,
        roles=READERS,
        answers={200: list[RunRecord]},
        query=(_AFTER, LIMIT),
    )
    async def list_runs(self, request: Request, call: Call) -> Response:
        """List a supplier's runs in the order in which they began; `Link` leads to the next page."""
        supplier = await self._known_supplier(request)
        after, limit = _AFTER.read(request), LIMIT.read(request)
        states, next_after = await read(self._pool, partial(runs_page, after=after, limit=limit), supplier)
        return json_response([state.record for state in states], headers=next_page(request, next_after))

    @operation("GET", RUN_PATH, STATUS, roles=READERS, answers={200: RunRecord})
    async def read_run(self, request: Request, call: Call) -> Response:
        """Read the progress of a run. Imports are counted after up to a second, refusals after up to a minute."""
        return json_response((await known_run(self._pool, request)).record)

    @operation("GET", f"{RUN_PATH}events/", STATUS, roles=READERS, answers={200: RunRecord}, media=EVENTS)
    async def follow_run(self, request: Request, call: Call) -> Response:
        """Follow a run by Server-Sent Events: `progress` at once, then at most every second; `finished` at the end.

        `refused` ends the stream of a key that was revoked; its data are `detail` and `code`.
        """
        state = await known_run(self._pool, request)
        self._following.refuse_full(call.organisation)
        return EventStream(self._events(state, request.headers.get("last-event-id", ""), call, language_of(request)))

    @operation(
        "GET",
        f"{RUN_PATH}imports/",
        STATUS,
        roles=READERS,
        answers={200: RunImport},
        query=(_STATUS,),
        media="application/x-ndjson",
    )
    async def list_run_imports(self, request: Request, call: Call) -> Response:
        """List the status records of a run's imports, one per line, in the order in which they were sent."""
        state = await known_run(self._pool, request)
        status = _STATUS.read(request)
        language = language_of(request)
        supplier, run = state.key
        query = partial(run_imports, supplier=supplier, run=run, status=status)
        text_format = ListFormat(media_type="application/x-ndjson", encode=partial(_lines, language))
        start: RunSortKey = (0, "")
        return await self._lists.answer(call, query, start, text_format, language_headers(language))

    async def _events(
        self, state: RunState, last_event_id: str, call: Call, language: Language
    ) -> AsyncGenerator[ServerEvent | None]:
        """Yield the events of a run; None to keep the connection alive.

        `last_event_id` is the id of the last event that the client has received, "" for none.
        """
        silent_since = time.monotonic()
        with self._following.slot(call.organisation):
            while True:
                try:
                    await call.confirm()
                except ApiError as refusal:
                    yield ServerEvent("refused", last_event_id, encoded(refusal.body, language))
                    return
                if str(state.position) != last_event_id:
                    last_event_id, silent_since = str(state.position), time.monotonic()
                    yield _event("progress", state)
                if (
                    not state.is_waiting
                    and now() - state.record.last_at > QUIET
                    and await read(self._pool, is_caught_up)
                ):
                    reread = await read(self._pool, run_state, *state.key)
                    if reread is not None and reread.position == state.position:
                        yield _event("finished", state)
                        return
                if time.monotonic() - silent_since > KEEP_ALIVE_S:
                    silent_since = time.monotonic()
                    yield None
                await asyncio.sleep(EVERY_S)
                newer = await read(self._pool, run_state, *state.key)
                state = newer or state


def _lines(language: Language, imports: Sequence[RunImport]) -> bytes:
    return b"".join([encode_line(with_sentence(record), language) + b"\n" for record in imports])


def _event(name: str, state: RunState) -> ServerEvent:
    return ServerEvent(name, str(state.position), encoded(state.record))
