"""Totals of a run on the platform, and the signed certificate that an importer's manifest matches them.

A worker computes totals in a background job. If the job takes more than some seconds, a request is answered with the
job's progress.
"""

import asyncio
import hashlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from psycopg import AsyncConnection
from starlette.requests import Request
from starlette.responses import Response

from api.access.auth import AUDITORS, READERS, WRITERS
from api.admission import Call
from api.endpoints.runs import RUN_PATH, known_run
from api.http.body_checks import run_on_body
from api.http.concurrency_limit import ConcurrencyLimit
from api.http.database import in_slot, read
from api.http.errors import data_not_valid, not_found
from api.http.limits import MAX_COMPARING_AT_ONCE, MAX_COMPARING_OF_ONE, MAX_MANIFEST_BYTES, MAX_MANIFEST_PLACES
from api.http.responses import JsonResponse, encoded, json_response, localised_response, refuse_large_answer
from api.http.status_codes import ApiError
from api.operation import STATUS, Parameter, operation
from api.services import Endpoint, Services
from eventstore.clock import now
from eventstore.proof.statement import StatementRefused, signed_statement
from projections.platform.totals import COMMON, UNUSED_CONTENT, Totals, unequal_totals
from projections.queries.reconciliation import (
    MAX_OPEN,
    QUIET_S,
    Reconciliation,
    TooManyReconciliations,
    cancel,
    note_delivery,
    reason_no_progress,
)
from projections.queries.reconciliation import (
    request as request_job,
)
from projections.queries.run_differences import MOST_DETAILED, MOST_IN_BUCKETS, TooManyInBuckets, run_differences
from projections.views.account_release import run_released_at
from projections.views.import_run import RunState, run_state
from schemas.base import Problem
from schemas.reading.nesting import is_shallow
from schemas.reading.problems import attr_of, bounded, is_truncated
from schemas.reading.shape import NotJson, Shape
from schemas.reading.shape_errors import DEEP_BODY
from schemas.run import AccountDifference, Certificate, JobProgress, Manifest, RunTotals, SourceContent
from schemas.sentence import Sentence

WAIT_S = 5.0
"""Longest wait of a request for the end of the job [seconds]."""
CHECK_EVERY_S = 0.25
_REASON = "differences"
"""Reason in the events of disclosures: values of accounts that differ were shown."""
_NOT_BALANCED = Sentence(
    "The source and the platform do not balance.", "Altsystem und Plattform stimmen nicht überein."
)
_FAILED = Sentence(
    "The run's totals could not be computed; the worker's log has the reason. Another request tries again.",
    "Die Summen des Laufs konnten in mehreren Versuchen nicht gebildet werden; warum, sagt das Protokoll des Workers."
    " Eine weitere Anfrage versucht es erneut.",
)
_TOO_MANY = Sentence(
    f"{MAX_OPEN} runs of this supplier are already being added up. Repeat the request when one of them has ended.",
    f"Für diese Quelle werden schon {MAX_OPEN} Läufe aufgerechnet. Fragen Sie erneut an, wenn einer fertig ist.",
)
_NO_FLOATS = Problem(
    "source",
    "invalid",
    Sentence("A manifest must not have floats.", "Ein Manifest darf keine Gleitkommazahlen enthalten."),
)

_SHOW = Parameter(
    name="show",
    description="Also personal data, for roles that may read histories. [default: masked]",
    schema={"type": "string", "enum": ["true"]},
)
_NOT_SHOWN = Sentence(
    "This key's role must not see personal data.",
    "Die Rolle dieses Schlüssels darf keine Personendaten sehen.",
)
_TOO_MANY_DETAILED = Problem(
    "accounts",
    "invalid",
    Sentence(
        f"At most {MOST_DETAILED} accounts must have paths.", f"Höchstens {MOST_DETAILED} Konten dürfen Felder haben."
    ),
)
_TOO_MANY_IN_BUCKETS = Problem(
    "buckets",
    "invalid",
    Sentence(
        f"The buckets must have at most {MOST_IN_BUCKETS} accounts of the run.",
        f"Die Gruppen dürfen höchstens {MOST_IN_BUCKETS} Konten des Laufs haben.",
    ),
)
_FULL = Sentence(
    "Too many requests compare accounts at the moment. Repeat the request later.",
    "Im Augenblick vergleichen zu viele Anfragen Konten. Wiederholen Sie die Anfrage später.",
)
_SOURCE_CONTENT = Shape(SourceContent)
_NO_JSON = Sentence("The manifest must be JSON.", "Das Manifest muss JSON sein.")
_TOO_LARGE = Sentence(
    f"A manifest must have at most {MAX_MANIFEST_BYTES} bytes.",
    f"Ein Manifest darf höchstens {MAX_MANIFEST_BYTES} Bytes haben.",
)
_TOO_MANY_PLACES = Sentence(
    f"A manifest must have at most {MAX_MANIFEST_PLACES} ledgers and undocumented fields.",
    f"Ein Manifest darf höchstens {MAX_MANIFEST_PLACES} Buchungskreise und undokumentierte Felder haben.",
)
_NO_OBJECT = Problem(
    "non_field_errors", "invalid", Sentence("A manifest must be an object.", "Ein Manifest muss ein Objekt sein.")
)
_OTHER_SUPPLIER = Sentence("The source must be of this supplier.", "Das Altsystem muss zu dieser Quelle gehören.")


class Reconciling(Endpoint):
    """The handlers of …/totals/, …/certificate/ and …/differences/."""

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._comparing = ConcurrencyLimit(MAX_COMPARING_AT_ONCE, MAX_COMPARING_OF_ONE, _FULL)

    @operation("GET", f"{RUN_PATH}totals/", STATUS, roles=READERS, answers={200: RunTotals, 202: JobProgress})
    async def read_run_totals(self, request: Request, call: Call) -> Response:
        """Read the totals of a run's accounts from the platform's tables: counts, sums, and every filled path."""
        state = await known_run(self._pool, request)
        added = await self._added(state, call)
        if isinstance(added, JobProgress):
            return _underway(request, added)
        return json_response(await self.record(state, added))

    @operation("POST", f"{RUN_PATH}totals/cancel/", STATUS, roles=WRITERS, answers={200: JobProgress})
    async def cancel_run_totals(self, request: Request, call: Call) -> Response:
        """Cancel the job that computes a run's totals, and delete its result."""
        state = await known_run(self._pool, request)
        await call.confirm()
        cancelled = await read(self._pool, cancel, *state.key)
        if cancelled is None:
            raise not_found()
        return json_response(_progress(cancelled))

    @operation(
        "POST",
        f"{RUN_PATH}certificate/",
        STATUS,
        roles=WRITERS,
        answers={200: Certificate, 202: JobProgress},
        body=Manifest,
        example={"import_supplier": "NORDWIND", "accounts": 0},
        refusals=(409,),
    )
    async def certify_run(self, request: Request, call: Call) -> Response:
        """Compare a source's manifest with the platform, and sign a certificate if they balance."""
        state = await known_run(self._pool, request)
        manifest = await run_on_body(call.body, source_manifest, call.body)
        added = await self._added(state, call, is_present=True)
        if isinstance(added, JobProgress):
            return _underway(request, added)
        totals = await self.record(state, added)
        if unequal := await run_on_body(call.body, unbalanced, manifest, totals):
            body = {"detail": _NOT_BALANCED, "code": "not_balanced", "errors": unequal}
            return localised_response(
                request, body | ({"errors_truncated": True} if is_truncated(unequal) else {}), 409
            )
        return await self.certified(state, manifest, totals, call.key.organisation)

    @operation(
        "POST",
        f"{RUN_PATH}differences/",
        STATUS,
        roles=READERS,
        answers={200: list[AccountDifference]},
        body=SourceContent,
        example={"accounts": [{"external_account_number": "NW-0004711", "digest": "0123456789abcdef"}]},
        is_read=True,
        query=(_SHOW,),
    )
    async def compare_accounts(self, request: Request, call: Call) -> Response:
        """Compare accounts of a source with the accounts of a run, by digests."""
        state, is_shown = await known_run(self._pool, request), _SHOW.read(request) == "true"
        if is_shown and call.key.role not in AUDITORS:
            raise ApiError(403, _NOT_SHOWN)
        source = await run_on_body(call.body, _source_content, call.body)
        slot = self._comparing.slot(call.organisation)
        try:
            found = await in_slot(slot, run_differences, self._ledger, *state.key, source, is_masked=not is_shown)
        except TooManyInBuckets:
            raise data_not_valid(_TOO_MANY_IN_BUCKETS) from None
        await call.confirm()
        differences = encoded(found)
        refuse_large_answer(differences)
        if is_shown:
            shown = [
                difference.external_account_number
                for difference in found
                if any(path.is_personal and path.values for path in difference.paths)
            ]
            await self._disclose(state.record.import_supplier, shown, reason=_REASON, by=call.by)
        return JsonResponse(differences)

    async def certified(
        self, state: RunState, manifest: dict[str, Any], totals: dict[str, Any], organisation: str
    ) -> Response:
        """Return the signed certificate that manifest and totals are equal, issued to an organisation."""
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
            "totals": {name: value for name, value in totals.items() if name != "buckets"},
        }
        try:
            signed = encoded(await signed_statement(self._ledger, self._services.authority, statement))
        except ValueError as error:
            raise data_not_valid(_NO_FLOATS) from error
        except StatementRefused as refusal:
            sentence = Sentence(str(refusal), "Das Zertifikat kann im Augenblick nicht signiert werden.")
            raise ApiError(503, sentence, headers={"Retry-After": "60"}) from refusal
        refuse_large_answer(signed)
        return JsonResponse(signed)

    async def _added(self, state: RunState, call: Call, *, is_present: bool = False) -> Totals | JobProgress:
        """Return the totals of the run, or the job's progress if they are not ready within WAIT_S. Raises ApiError."""
        deadline = time.monotonic() + WAIT_S
        while True:
            job = await self.job(state, is_present=is_present)
            await call.confirm()
            if job.has_ended and not job.error:
                await read(self._pool, note_delivery, job.job)
                return msgspec.json.decode(job.totals, type=Totals)
            if job.has_ended:
                await read(self._pool, cancel, *state.key)
                raise ApiError(503, _FAILED, headers={"Retry-After": "60"})
            if time.monotonic() > deadline:
                why = await read(self._pool, reason_no_progress) if job.quiet_s > QUIET_S else None
                return _progress(job, why or "")
            await asyncio.sleep(CHECK_EVERY_S)

    async def job(self, state: RunState, *, is_present: bool = False) -> Reconciliation:
        """Return the job that computes the totals of a run, and start it if necessary. Raises ApiError.

        With `is_present`, start it again if the run has changed since it was requested, as for a certificate.
        """
        try:
            job = await read(self._pool, self._requested, state)
            if is_present and job.has_ended and not job.error:
                present = await read(self._pool, run_state, *state.key) or state
                if job.reached != present.position:
                    await read(self._pool, cancel, *state.key)
                    job = await read(self._pool, self._requested, present)
            return job
        except TooManyReconciliations:
            raise ApiError(503, _TOO_MANY, headers={"Retry-After": "10"}) from None

    @staticmethod
    async def _requested(connection: AsyncConnection[Any], state: RunState) -> Reconciliation:
        return await request_job(connection, *state.key, reached=state.position, accounts=state.record.total)

    async def record(self, state: RunState, totals: Totals) -> dict[str, Any]:
        """Return the totals of the run with its present state."""
        supplier, run = state.key
        again = await read(self._pool, run_state, supplier, run) or state
        entry = await self._directory.supplier(supplier)
        released_at = await read(self._pool, run_released_at, supplier, run)
        return {
            "import_supplier": supplier,
            "run": run,
            **totals.record(),
            "by_status": again.record.by_status,
            "refused": again.record.refused,
            "unknown_fields": entry.unknown_fields if entry else "refuse",
            **({"released_at": f"{released_at:%Y-%m-%dT%H:%M:%SZ}"} if released_at else {}),
        }


def _progress(job: Reconciliation, why: str = "") -> JobProgress:
    return JobProgress(accounts=job.accounts, accounts_done=job.accounts_done, eta_s=job.eta_s, why=why)


def _underway(request: Request, progress: JobProgress) -> Response:
    return localised_response(request, progress, 202, {"Retry-After": "1"})


def _source_content(body: bytes) -> SourceContent:
    """Return the accounts in a body. Raises NotValid, NotJson."""
    source, shape_errors = _SOURCE_CONTENT.examine(body)
    if shape_errors:
        raise data_not_valid(*shape_errors)
    if sum(bool(account.paths) for account in source.accounts) > MOST_DETAILED:
        raise data_not_valid(_TOO_MANY_DETAILED)
    return source


def source_manifest(body: bytes) -> dict[str, Any]:
    """Return the manifest in a request's body. Only its size, depth and type are checked.

    Raises ApiError, NotJson, NotValid.
    """
    if len(body) > MAX_MANIFEST_BYTES:
        raise ApiError(413, _TOO_LARGE)
    try:
        manifest = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ApiError(400, _NO_JSON, code="parse_error") from None
    if not is_shallow(manifest):
        raise NotJson(DEEP_BODY)
    if not isinstance(manifest, dict):
        raise data_not_valid(_NO_OBJECT)
    places = (manifest.get(name) for name in ("by_ledger", "undocumented", *UNUSED_CONTENT))
    if sum(len(place) for place in places if isinstance(place, dict | list)) > MAX_MANIFEST_PLACES:
        raise ApiError(413, _TOO_MANY_PLACES)
    return manifest


def unbalanced(manifest: Mapping[str, Any], totals: Mapping[str, Any]) -> list[Problem]:
    """Return a problem for each place where manifest and totals differ, within the limit. Raises TooMuchWork."""

    def unequal() -> Iterator[Problem]:
        if manifest.get("import_supplier") not in (None, totals["import_supplier"]):
            yield Problem("import_supplier", "not_balanced", _OTHER_SUPPLIER)
        for place, sentence in unequal_totals(manifest, totals, drops_unknown=totals["unknown_fields"] == "ignore"):
            yield Problem(attr_of(place), "not_balanced", sentence)

    return bounded(unequal())
