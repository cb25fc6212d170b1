"""Runs: how far what was sent under one name is, what became of it, what it adds up to, and the certificate of that."""

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from api.admission import Call
from api.auth import READERS, WRITERS
from api.beside import beside
from api.bulk.receipts import encode_line
from api.database import in_time, read
from api.errors import NotValid, not_found
from api.event_stream import KEEP_ALIVE_S, EventStream, ServerEvent
from api.languages import Language, language_headers, language_of
from api.limits import MAX_FOLLOWING_AT_ONCE, MAX_FOLLOWING_OF_ONE
from api.manifests import source_manifest, unbalanced
from api.operation import STATUS, V2, Operation, Parameter
from api.paths import identifier
from api.problem_sentences import with_sentence
from api.responses import JsonResponse, encoded, json_response, refuse_large_answer, spoken_response
from api.services import Services
from api.shares import Shares
from api.status_codes import ApiError
from eventstore.aggregates.import_process import STATUSES
from eventstore.clock import now
from eventstore.proof.statement import StatementRefused, signed_statement
from projections.import_run import RunPlace, RunState, is_up, run_imports, run_states
from projections.inquiries import answer_async
from projections.platform.adding_up import run_portion
from projections.platform.totals import COMMON, Totals
from schemas.base import Problem
from schemas.problems import is_truncated
from schemas.run import Certificate, Manifest, RunImport, RunRecord, RunTotals
from schemas.sentence import Sentence

LATE_S = 3.0
"""How long a question about a run waits for the projection, when it may not know the run yet."""
EVERY_S = 1.0
"""How often a run is told at most."""
QUIET = timedelta(seconds=2)
"""A run has finished when nothing of it waits and nothing has come for so long."""
STATES = frozenset(STATUSES)
_STATES = Sentence(
    f"A status is one of {', '.join(sorted(STATES))}.", f"Ein Status ist einer von {', '.join(sorted(STATES))}."
)
_FULL = Sentence("Too many follow runs at the moment.", "Im Augenblick verfolgen zu viele einen Lauf.")
_NOT_BALANCED = Sentence("The source and the platform do not balance.", "Quelle und Plattform stimmen nicht überein.")
RUN_PATH = f"{V2}/runs/{{supplier}}/{{run}}/"


class Runs:
    """The handlers of …/runs/."""

    def __init__(self, services: Services) -> None:
        self._pool = services.pool
        self._lists = services.lists
        self._ledger = services.ledger
        self._directory = services.directory
        self._following = Shares(MAX_FOLLOWING_AT_ONCE, MAX_FOLLOWING_OF_ONE, _FULL, retry_after_s=5)

    async def all(self, request: Request, call: Call) -> Response:
        """200 with the supplier's runs, in the order in which they began."""
        supplier = identifier(request, "supplier")
        if await self._directory.supplier(supplier) is None:
            raise not_found()
        return json_response([state.record for state in await read(self._pool, run_states, supplier)])

    async def one(self, request: Request, call: Call) -> Response:
        """200 with the run's record, or 404."""
        return json_response((await self._known(request)).record)

    async def events(self, request: Request, call: Call) -> Response:
        """200 with events: `progress` at once and then once a second at most, `finished` at the end."""
        state = await self._known(request)
        organisation = call.key.organisation
        self._following.refuse_full(organisation)
        return EventStream(self._told(state, request.headers.get("last-event-id", ""), organisation))

    async def imports(self, request: Request, call: Call) -> Response:
        """200 with the status records of the run's imports, a line each, in the order in which they were sent."""
        state = await self._known(request)
        status = _status_of(request)
        first, after = await read(self._lists, run_imports, *_named(state), status, (0, ""))
        language = language_of(request)
        return StreamingResponse(
            self._lines(state, status, first, after, language),
            media_type="application/x-ndjson",
            headers=language_headers(language),
        )

    async def totals(self, request: Request, call: Call) -> Response:
        """200 with what the platform's tables say of the run's accounts."""
        return json_response(await self._totals(await self._known(request)))

    async def certificate(self, request: Request, call: Call) -> Response:
        """200 with a signed certificate where source and platform balance, 409 with every difference otherwise."""
        state = await self._known(request)
        manifest = await beside(call.body, source_manifest, call.body)
        totals = await self._totals(state)
        if unequal := await beside(call.body, unbalanced, manifest, totals):
            body = {"detail": _NOT_BALANCED, "code": "not_balanced", "errors": unequal}
            return spoken_response(request, body | ({"errors_truncated": True} if is_truncated(unequal) else {}), 409)
        common = {name: manifest[name] for name in COMMON if name in manifest}
        statement = {
            "format": "importledger-certificate/1",
            "says": "Everything that was in the source is on the platform.",
            "import_supplier": state.record.import_supplier,
            "run": state.record.run,
            "issued_at": f"{now():%Y-%m-%dT%H:%M:%SZ}",
            "issued_to": call.key.organisation,
            "manifest_sha256": hashlib.sha256(msgspec.json.encode(common, order="sorted")).hexdigest(),
            "source": manifest.get("source"),
            "totals": totals,
        }
        try:
            signed = encoded(await signed_statement(self._ledger, statement))
        except ValueError as error:
            raise _not_valid(
                Problem(
                    "source",
                    "invalid",
                    Sentence("A manifest has no floats.", "Ein Manifest enthält keine Gleitkommazahlen."),
                )
            ) from error
        except StatementRefused as refusal:
            raise ApiError(503, _not_signed(str(refusal)), headers={"Retry-After": "60"}) from refusal
        refuse_large_answer(signed)
        return JsonResponse(signed)

    async def _known(self, request: Request) -> RunState:
        """The run that the path names. Raises ApiError 404."""
        supplier, run = identifier(request, "supplier"), identifier(request, "run")
        state = await self._state(supplier, run)
        deadline = time.monotonic() + LATE_S
        while state is None and time.monotonic() < deadline:  # it may have begun just now
            if is_late := not await read(self._pool, is_up):
                await asyncio.sleep(0.1)
            state = await self._state(supplier, run)
            if not is_late:
                break
        if state is None:
            raise not_found()
        return state

    async def _state(self, supplier: str, run: str) -> RunState | None:
        return next(iter(await read(self._pool, run_states, supplier, run)), None)

    async def _told(self, state: RunState, seen: str, organisation: str) -> AsyncGenerator[ServerEvent | None]:
        """What is told of a run to somebody who has seen the event of this id, "" for none."""
        silent_since = time.monotonic()
        with self._following.place(organisation):
            while True:
                if str(state.position) != seen:
                    seen, silent_since = str(state.position), time.monotonic()
                    yield _event("progress", state)
                if not state.is_waiting and now() - state.record.last_at > QUIET and await read(self._pool, is_up):
                    again = await self._state(*_named(state))
                    if again is not None and again.position == state.position:
                        yield _event("finished", state)
                        return
                if time.monotonic() - silent_since > KEEP_ALIVE_S:
                    silent_since = time.monotonic()
                    yield None
                await asyncio.sleep(EVERY_S)
                state = await self._state(*_named(state)) or state

    async def _lines(
        self,
        state: RunState,
        status: str | None,
        imports: list[RunImport],
        after: tuple[int, str] | None,
        language: Language,
    ) -> AsyncIterator[bytes]:
        """The lines, page by page. A connection is held for one page only, so that slow readers starve nobody."""
        while True:
            yield b"".join([encode_line(with_sentence(one), language) + b"\n" for one in imports])
            if after is None:
                return
            imports, after = await read(self._lists, run_imports, *_named(state), status, after)

    async def _totals(self, state: RunState) -> dict[str, Any]:
        """The totals of the run. Reads one portion of accounts after the other, however long that takes."""
        supplier, run = _named(state)
        totals = Totals()
        after: RunPlace | None = (0, "")
        while after is not None:
            portion, after = await in_time(self._portion(supplier, run, after), within_s=60.0)
            totals = totals.merge(portion)
        again = await self._state(supplier, run) or state
        entry = await self._directory.supplier(supplier)
        return {
            "import_supplier": supplier,
            "run": run,
            **totals.record(),
            "by_status": again.record.by_status,
            "refused": again.record.refused,
            "unknown_fields": entry.unknown_fields if entry else "refuse",
        }

    async def _portion(self, supplier: str, run: str, after: RunPlace) -> tuple[Totals, RunPlace | None]:
        async with self._lists.connection() as connection:
            return await answer_async(connection, run_portion(supplier, run, after))


def _named(state: RunState) -> tuple[str, str]:
    return state.record.import_supplier, state.record.run


def _event(name: str, state: RunState) -> ServerEvent:
    return ServerEvent(name, str(state.position), encoded(state.record))


def _status_of(request: Request) -> str | None:
    for name in request.query_params:
        if name != "status":
            raise _not_valid(
                Problem(
                    name,
                    "unknown_field",
                    Sentence(
                        "This is no parameter; there is status.", "Diesen Parameter gibt es nicht; es gibt status."
                    ),
                )
            )
    status = request.query_params.get("status")
    if status is not None and status not in STATES:
        raise _not_valid(Problem("status", "invalid_choice", _STATES))
    return status


def _not_signed(reason: str) -> Sentence:
    return Sentence(reason, "Das Zertifikat kann im Augenblick nicht signiert werden.")


def _not_valid(*problems: Problem) -> NotValid:
    return NotValid(
        "validation_error",
        Sentence("The request could not be understood.", "Die Anfrage wurde nicht verstanden."),
        problems,
    )


_STATUS = Parameter(
    name="status",
    description="Only imports in this state.",
    schema={"type": "string", "enum": sorted(STATES)},
)

OPERATIONS = (
    Operation(
        handler=Runs.all,
        name="list_runs",
        method="GET",
        path=f"{V2}/runs/{{supplier}}/",
        tag=STATUS,
        summary="A supplier's runs, in the order in which they began.",
        answers={200: list[RunRecord]},
        roles=READERS,
        refuses=(404,),
    ),
    Operation(
        handler=Runs.one,
        name="read_run",
        method="GET",
        path=RUN_PATH,
        tag=STATUS,
        summary="How far a run is; up to a second late, refusals up to a minute.",
        answers={200: RunRecord},
        roles=READERS,
        refuses=(404,),
    ),
    Operation(
        handler=Runs.events,
        name="follow_run",
        method="GET",
        path=f"{RUN_PATH}events/",
        tag=STATUS,
        summary="Server-Sent Events: `progress` at once and then once a second at most, `finished` at the end.",
        answers={200: RunRecord},
        roles=READERS,
        refuses=(404,),
        media="text/event-stream",
    ),
    Operation(
        handler=Runs.imports,
        name="list_run_imports",
        method="GET",
        path=f"{RUN_PATH}imports/",
        tag=STATUS,
        summary="The status records of a run's imports, one a line, in the order in which they were sent.",
        answers={200: RunImport},
        roles=READERS,
        query=(_STATUS,),
        refuses=(400, 404),
        media="application/x-ndjson",
    ),
    Operation(
        handler=Runs.totals,
        name="read_run_totals",
        method="GET",
        path=f"{RUN_PATH}totals/",
        tag=STATUS,
        summary="What the platform's tables say of a run's accounts: counts, sums, and every path that is filled.",
        answers={200: RunTotals},
        roles=READERS,
        refuses=(404,),
    ),
    Operation(
        handler=Runs.certificate,
        name="certify_run",
        method="POST",
        path=f"{RUN_PATH}certificate/",
        tag=STATUS,
        summary="Compare a source's manifest with the platform, and sign that they balance.",
        answers={200: Certificate},
        roles=WRITERS,
        body=Manifest,
        example={"import_supplier": "NORDWIND", "accounts": 0},
        refuses=(404, 409),
    ),
)
