"""Reconciling: what a run adds up to on the platform, and the certificate that this is what its source adds up to.

One api process adds up by itself while the caller waits. With `spread` the workers of all machines do; nobody waits.
"""

import asyncio
import hashlib
from typing import Any

import msgspec
from psycopg import AsyncConnection
from starlette.requests import Request
from starlette.responses import Response

from api.admission import Call
from api.auth import READERS, WRITERS
from api.beside import beside
from api.database import in_time, read
from api.known_runs import RUN_PATH, KnownRuns, run_not_valid
from api.limits import MAX_SPREADING_AT_ONCE, MAX_SPREADING_OF_ONE
from api.manifests import source_manifest, unbalanced
from api.operation import STATUS, Operation, Parameter
from api.responses import JsonResponse, encoded, json_response, refuse_large_answer, spoken_response
from api.services import Services
from api.shares import Shares
from api.status_codes import ApiError
from eventstore.clock import now
from eventstore.log.long_jobs import end_job
from eventstore.proof.statement import StatementRefused, signed_statement
from projections.import_run import RunPlace, RunState
from projections.inquiries import answer_async
from projections.platform.adding_up import run_portion
from projections.platform.totals import COMMON, Totals
from projections.run_totals import AddedUp, spread_totals
from projections.spreading.asking import NotSpread
from schemas.base import Problem
from schemas.job_progress import JobProgress
from schemas.problems import is_truncated
from schemas.run import Certificate, Manifest, RunTotals
from schemas.sentence import Sentence

PORTION_WITHIN_S = 60.0
_NOT_BALANCED = Sentence("The source and the platform do not balance.", "Quelle und Plattform stimmen nicht überein.")
_BUSY = Sentence(
    "Too many ask what workers have added up at the moment.",
    "Im Augenblick fragen zu viele, was die Worker aufgerechnet haben.",
)
_NO_FLOATS = Problem(
    "source", "invalid", Sentence("A manifest has no floats.", "Ein Manifest enthält keine Gleitkommazahlen.")
)
_TRUE_OR_FALSE = Sentence("It must be true or false.", "Der Wert muss true oder false sein.")


class Reconciling:
    """The handlers of …/totals/ and …/certificate/."""

    def __init__(self, services: Services) -> None:
        self._runs = KnownRuns(services)
        self._lists = services.lists
        self._ledger = services.ledger
        self._directory = services.directory
        self._spreading = Shares(MAX_SPREADING_AT_ONCE, MAX_SPREADING_OF_ONE, _BUSY)

    async def totals(self, request: Request, call: Call) -> Response:
        """200 with what the platform's tables say of the run's accounts; 202 while workers add them up."""
        is_spread = _is_spread(request)
        state = await self._runs.known(request)
        added = await self._added(state, call, is_spread=is_spread)
        if isinstance(added, JobProgress):
            return _underway(request, added)
        answered = json_response(await self._record(state, added.totals))
        await self._end(added)
        return answered

    async def certificate(self, request: Request, call: Call) -> Response:
        """200 with a signed certificate where source and platform balance, 409 with every difference otherwise."""
        is_spread = _is_spread(request)
        state = await self._runs.known(request)
        manifest = await beside(call.body, source_manifest, call.body)
        added = await self._added(state, call, is_spread=is_spread)
        if isinstance(added, JobProgress):
            return _underway(request, added)
        totals = await self._record(state, added.totals)
        if unequal := await beside(call.body, unbalanced, manifest, totals):
            body = {"detail": _NOT_BALANCED, "code": "not_balanced", "errors": unequal}
            answered = spoken_response(
                request, body | ({"errors_truncated": True} if is_truncated(unequal) else {}), 409
            )
        else:
            answered = await self._certified(state, manifest, totals, call.key.organisation)
        await self._end(added)
        return answered

    async def _certified(
        self, state: RunState, manifest: dict[str, Any], totals: dict[str, Any], organisation: str
    ) -> Response:
        common = {name: manifest[name] for name in COMMON if name in manifest}
        statement = {
            "format": "importledger-certificate/1",
            "says": "Everything that was in the source is on the platform.",
            "import_supplier": state.record.import_supplier,
            "run": state.record.run,
            "issued_at": f"{now():%Y-%m-%dT%H:%M:%SZ}",
            "issued_to": organisation,
            "manifest_sha256": hashlib.sha256(msgspec.json.encode(common, order="sorted")).hexdigest(),
            "source": manifest.get("source"),
            "totals": totals,
        }
        try:
            signed = encoded(await signed_statement(self._ledger, statement))
        except ValueError as error:
            raise run_not_valid(_NO_FLOATS) from error
        except StatementRefused as refusal:
            raise ApiError(503, _not_signed(str(refusal)), headers={"Retry-After": "60"}) from refusal
        refuse_large_answer(signed)
        return JsonResponse(signed)

    async def _added(self, state: RunState, call: Call, *, is_spread: bool) -> JobProgress | AddedUp:
        """The run added up, or how far the workers are with it. Raises ApiError.

        What is asked of workers takes a thread and a connection, of which others need some as well.
        """
        if not is_spread:
            return AddedUp("", await self._alone(state, call))
        try:
            with self._spreading.place(call.organisation):
                return await in_time(asyncio.to_thread(self._spread, state), within_s=PORTION_WITHIN_S)
        except NotSpread as refusal:
            raise ApiError(503, refusal.sentence, headers={"Retry-After": "10"}) from refusal

    def _spread(self, state: RunState) -> JobProgress | AddedUp:
        with self._ledger.connection() as connection:
            return spread_totals(connection, *state.named, accounts=state.record.total, reached=state.position)

    async def _end(self, added: AddedUp) -> None:
        """The job's results have been used. Until here it can be asked for again, whoever is killed on the way."""
        if added.job:
            await in_time(asyncio.to_thread(self._end_job, added.job))

    def _end_job(self, job: str) -> None:
        with self._ledger.connection() as connection:
            end_job(connection, job, "done")

    async def _alone(self, state: RunState, call: Call) -> Totals:
        """Added up by this process: one portion of accounts after the other, however long that takes."""
        totals = Totals()
        after: RunPlace | None = (0, "")
        while after is not None:
            await call.confirm()
            portion, after = await read(self._lists.pool, _portion, *state.named, after, within_s=PORTION_WITHIN_S)
            totals = totals.merge(portion)
        return totals

    async def _record(self, state: RunState, totals: Totals) -> dict[str, Any]:
        """The totals of the run, with how it is by now."""
        supplier, run = state.named
        again = await self._runs.state(supplier, run) or state
        entry = await self._directory.supplier(supplier)
        return {
            "import_supplier": supplier,
            "run": run,
            **totals.record(),
            "by_status": again.record.by_status,
            "refused": again.record.refused,
            "unknown_fields": entry.unknown_fields if entry else "refuse",
        }


async def _portion(
    connection: AsyncConnection[Any], supplier: str, run: str, after: RunPlace
) -> tuple[Totals, RunPlace | None]:
    return await answer_async(connection, run_portion(supplier, run, after))


def _underway(request: Request, progress: JobProgress) -> Response:
    return spoken_response(request, progress, 202, {"Retry-After": "1"})


def _is_spread(request: Request) -> bool:
    said = request.query_params.get("spread", "false")
    if said not in ("true", "false"):
        raise run_not_valid(Problem("spread", "invalid_choice", _TRUE_OR_FALSE))
    return said == "true"


def _not_signed(reason: str) -> Sentence:
    return Sentence(reason, "Das Zertifikat kann im Augenblick nicht signiert werden.")


_SPREAD = Parameter(
    name="spread",
    description="With true, the workers of all machines add up. Ask again until the answer is no 202, which says how"
    " far they are.",
    schema={"type": "boolean"},
)

OPERATIONS = (
    Operation(
        handler=Reconciling.totals,
        name="read_run_totals",
        method="GET",
        path=f"{RUN_PATH}totals/",
        tag=STATUS,
        summary="What the platform's tables say of a run's accounts: counts, sums, and every path that is filled.",
        answers={200: RunTotals, 202: JobProgress},
        roles=READERS,
        query=(_SPREAD,),
        refuses=(404,),
    ),
    Operation(
        handler=Reconciling.certificate,
        name="certify_run",
        method="POST",
        path=f"{RUN_PATH}certificate/",
        tag=STATUS,
        summary="Compare a source's manifest with the platform, and sign that they balance.",
        answers={200: Certificate, 202: JobProgress},
        roles=WRITERS,
        query=(_SPREAD,),
        body=Manifest,
        example={"import_supplier": "NORDWIND", "accounts": 0},
        refuses=(404, 409),
    ),
)
