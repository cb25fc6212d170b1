"""Totals of a run on the platform, and the certificate that a source balances with them.

A worker adds up, in a background job of its own. A request waits for some seconds; then it answers how far the job is.
"""

import asyncio
import hashlib
import time
from typing import Any

import msgspec
from psycopg import AsyncConnection
from starlette.requests import Request
from starlette.responses import Response

from api.access.auth import READERS, WRITERS
from api.admission import Call
from api.endpoints.known_runs import RUN_PATH, KnownRuns, run_not_valid
from api.endpoints.manifests import source_manifest, unbalanced
from api.http.beside import beside
from api.http.database import read
from api.http.errors import not_found
from api.http.responses import JsonResponse, encoded, json_response, refuse_large_answer, spoken_response
from api.http.status_codes import ApiError
from api.operation import STATUS, Operation
from api.services import Services
from eventstore.clock import now
from eventstore.proof.statement import StatementRefused, signed_statement
from projections.platform.totals import COMMON, Totals
from projections.queries.reconciliation import (
    MAX_OPEN,
    QUIET_S,
    Reconciliation,
    TooManyReconciliations,
    cancel,
    note_delivery,
    why_quiet,
)
from projections.queries.reconciliation import (
    request as request_job,
)
from projections.views.import_run import RunState
from schemas.base import Problem
from schemas.job_progress import JobProgress
from schemas.reading.problems import is_truncated
from schemas.run import Certificate, Manifest, RunTotals
from schemas.sentence import Sentence

WAIT_S = 5.0
"""Longest wait of a request for the end of the job [seconds]."""
LOOK_EVERY_S = 0.25
_NOT_BALANCED = Sentence("The source and the platform do not balance.", "Quelle und Plattform stimmen nicht überein.")
_FAILED = Sentence(
    "The run could not be added up, in several attempts; the worker's log says why. Another request tries again.",
    "Die Summen des Laufs konnten in mehreren Versuchen nicht gebildet werden; warum, sagt das Protokoll des Workers."
    " Eine weitere Anfrage versucht es erneut.",
)
_TOO_MANY = Sentence(
    f"{MAX_OPEN} runs of this supplier are being added up already. Ask again when one of them is done.",
    f"Für diesen Lieferanten werden schon {MAX_OPEN} Läufe aufgerechnet. Bitte erneut anfragen, wenn einer fertig ist.",
)
_NO_FLOATS = Problem(
    "source", "invalid", Sentence("A manifest has no floats.", "Ein Manifest enthält keine Gleitkommazahlen.")
)


class Reconciling:
    """The handlers of …/totals/ and …/certificate/."""

    def __init__(self, services: Services) -> None:
        self._runs = KnownRuns(services)
        self._pool = services.pool
        self._ledger = services.ledger
        self._authority = services.authority
        self._directory = services.directory

    async def totals(self, request: Request, call: Call) -> Response:
        """200 with what the platform's tables say of the run's accounts; 202 while a worker adds them up."""
        state = await self._runs.known(request)
        added = await self._added(state, call)
        if isinstance(added, JobProgress):
            return _underway(request, added)
        return json_response(await self._record(state, added))

    async def cancel(self, request: Request, call: Call) -> Response:
        """200 with how far the job was that is cancelled, or whose result is deleted; 404 without one."""
        state = await self._runs.known(request)
        await call.confirm()
        cancelled = await read(self._pool, cancel, *state.named)
        if cancelled is None:
            raise not_found()
        return json_response(_progress(cancelled))

    async def certificate(self, request: Request, call: Call) -> Response:
        """200 with a signed certificate where source and platform balance, 409 with every difference otherwise."""
        state = await self._runs.known(request)
        manifest = await beside(call.body, source_manifest, call.body)
        added = await self._added(state, call)
        if isinstance(added, JobProgress):
            return _underway(request, added)
        totals = await self._record(state, added)
        if unequal := await beside(call.body, unbalanced, manifest, totals):
            body = {"detail": _NOT_BALANCED, "code": "not_balanced", "errors": unequal}
            return spoken_response(request, body | ({"errors_truncated": True} if is_truncated(unequal) else {}), 409)
        return await self._certified(state, manifest, totals, call.key.organisation)

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
            signed = encoded(await signed_statement(self._ledger, self._authority, statement))
        except ValueError as error:
            raise run_not_valid(_NO_FLOATS) from error
        except StatementRefused as refusal:
            raise ApiError(503, _not_signed(str(refusal)), headers={"Retry-After": "60"}) from refusal
        refuse_large_answer(signed)
        return JsonResponse(signed)

    async def _added(self, state: RunState, call: Call) -> Totals | JobProgress:
        """Return the run added up, or how far the worker is when a request has waited long enough. Raises ApiError."""
        deadline = time.monotonic() + WAIT_S
        while True:
            job = await self._job(state)
            await call.confirm()
            if job.has_ended and not job.error:
                await read(self._pool, note_delivery, job.job)
                return msgspec.json.decode(job.totals, type=Totals)
            if job.has_ended:
                await read(self._pool, cancel, *state.named)
                raise ApiError(503, _FAILED, headers={"Retry-After": "60"})
            if time.monotonic() > deadline:
                why = await read(self._pool, why_quiet) if job.quiet_s > QUIET_S else None
                return _progress(job, why or "")
            await asyncio.sleep(LOOK_EVERY_S)

    async def _job(self, state: RunState) -> Reconciliation:
        try:
            return await read(self._pool, self._requested, state)
        except TooManyReconciliations:
            raise ApiError(503, _TOO_MANY, headers={"Retry-After": "10"}) from None

    @staticmethod
    async def _requested(connection: AsyncConnection[Any], state: RunState) -> Reconciliation:
        return await request_job(connection, *state.named, reached=state.position, accounts=state.record.total)

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


def _progress(job: Reconciliation, why: str = "") -> JobProgress:
    return JobProgress(accounts=job.accounts, accounts_done=job.accounts_done, eta_s=job.eta_s, why=why)


def _underway(request: Request, progress: JobProgress) -> Response:
    return spoken_response(request, progress, 202, {"Retry-After": "1"})


def _not_signed(reason: str) -> Sentence:
    return Sentence(reason, "Das Zertifikat kann im Augenblick nicht signiert werden.")


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
        refuses=(404,),
    ),
    Operation(
        handler=Reconciling.cancel,
        name="cancel_run_totals",
        method="POST",
        path=f"{RUN_PATH}totals/cancel/",
        tag=STATUS,
        summary="Cancel the job that adds a run up, and delete its result.",
        answers={200: JobProgress},
        roles=WRITERS,
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
        body=Manifest,
        example={"import_supplier": "NORDWIND", "accounts": 0},
        refuses=(404, 409),
    ),
)
