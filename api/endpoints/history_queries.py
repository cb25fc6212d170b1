"""History of an account for auditors, and the difference of two of its payloads."""

from functools import partial

from psycopg_pool import AsyncConnectionPool
from starlette.requests import Request
from starlette.responses import Response

from api.access.auth import AUDITORS
from api.admission import Call
from api.http.body_checks import run_on_body
from api.http.database import in_thread, read
from api.http.errors import not_found, query_not_valid
from api.http.limits import MAX_ANSWER_BYTES
from api.http.paths import identifier
from api.http.responses import JsonResponse
from api.operation import ACCOUNT_PATH, ACCOUNTS, Parameter, operation
from api.services import Endpoint
from eventstore.aggregates.import_process import stream_of
from projections.queries.history import (
    AHEAD,
    AsOf,
    HistoryEntry,
    MomentAhead,
    account_positions,
    history_page,
    is_imported,
    staged_payloads,
)
from schemas.base import Problem
from schemas.difference import FieldChange, bounded_difference
from schemas.reading.work import COMPARISON_BOUNDS
from schemas.sentence import Sentence

AS_OF = Parameter(
    name="as_of",
    description="Position of the log or past time: the answer is what was known then.",
    schema={"type": "string", "pattern": r"^(\d{1,18}|\d{4}-\d{2}-\d{2}[Tt ].*)$"},
)
_NO_MOMENT = Sentence(
    "This must be a position, a time in ISO 8601, or a day such as 2026-11-21.",
    "Dies muss eine Position, ein Zeitpunkt nach ISO 8601 oder ein Tag wie 2026-11-21 sein.",
)
_NO_VERSION = Sentence(
    "This must be the version of an event that has staged a payload.",
    "Dies muss die Version eines Ereignisses sein, das Daten vorgemerkt hat.",
)


def _version(name: str) -> Parameter:
    return Parameter(
        name=name,
        description="Version of an event in the import's stream that has staged a payload.",
        schema={"type": "integer", "minimum": 1},
        is_required=True,
    )


async def as_of(pool: AsyncConnectionPool, request: Request) -> int | None:
    """Return the position of the moment in `?as_of=`; None without this parameter. Raises NotValid."""
    text = request.query_params.get("as_of")
    if text is None:
        return None
    try:
        return await read(pool, AsOf.of(text).position_in)
    except MomentAhead as error:
        raise query_not_valid(Problem("as_of", "invalid", AHEAD)) from error
    except ValueError as error:
        raise query_not_valid(Problem("as_of", "invalid", _NO_MOMENT)) from error


class HistoryQueries(Endpoint):
    """The handlers of …/history/ and …/history/difference/."""

    @operation(
        "GET",
        f"{ACCOUNT_PATH}history/",
        ACCOUNTS,
        roles=AUDITORS,
        answers={200: list[HistoryEntry]},
        query=(AS_OF,),
    )
    async def read_history(self, request: Request, call: Call) -> Response:
        """Read the history of an account, for auditors and staff."""
        supplier, external, upto = await self._parameters(request)
        positions = await read(self._pool, account_positions, supplier, external, upto)
        query = partial(history_page, supplier=supplier, external=external, positions=positions)
        return await self._lists.answer(call, query, 0)

    @operation(
        "GET",
        f"{ACCOUNT_PATH}history/difference/",
        ACCOUNTS,
        roles=AUDITORS,
        answers={200: list[FieldChange]},
        query=(_version("from"), _version("to")),
    )
    async def read_payload_difference(self, request: Request, call: Call) -> Response:
        """Compare two payloads of an account, for auditors and staff."""
        supplier, external, upto = await self._parameters(request)
        versions = tuple(request.query_params.get(name, "") for name in ("from", "to"))
        digests = await read(self._pool, staged_payloads, supplier, external, versions, upto)
        bodies = []
        for name, digest in zip(("from", "to"), digests, strict=True):
            if digest is None:
                raise query_not_valid(Problem(name, "invalid_choice", _NO_VERSION))
            bodies.append(await self._payload(stream_of(supplier, external), digest))
        older, newer = bodies
        compared = await run_on_body(
            max(bodies, key=len), bounded_difference, older, newer, COMPARISON_BOUNDS, MAX_ANSWER_BYTES
        )
        return JsonResponse(compared, 200)

    async def _parameters(self, request: Request) -> tuple[str, str, int | None]:
        """Return the account of the path and the position of `?as_of=`. Raises ApiError 404 without an import."""
        supplier, external = identifier(request, "supplier"), identifier(request, "external")
        upto = await as_of(self._pool, request)
        if not await read(self._pool, is_imported, supplier, external, upto):
            raise not_found()
        return supplier, external, upto

    async def _payload(self, stream: str, digest: str) -> bytes:
        """Return a payload. Raises ApiError 404 if it was erased or archived."""
        body = (await in_thread(self._ledger.payloads, {stream: digest})).get(stream)
        if body is None:
            raise not_found(Sentence("A payload was erased or archived.", "Die Daten wurden gelöscht oder archiviert."))
        return body
