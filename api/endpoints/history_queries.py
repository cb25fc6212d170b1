"""What happened to an account, for auditors: its history, and what differs between two of its payloads."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from api.auth import AUDITORS
from api.calls import Call
from api.errors import NotValid, not_found
from api.operation import ACCOUNT_PATH, ACCOUNTS, Operation, Parameter
from api.paths import identifier
from api.responses import JsonResponse, json_response
from api.services import Services
from api.store import in_thread, read
from eventstore.aggregates.import_process import ImportStaged, stream_of
from eventstore.events import Recorded
from projections.history import NOW, AsOf, HistoryEntry, account_history, history_entry, of_import
from schemas.base import Problem
from schemas.difference import FieldChange, difference
from schemas.sentence import Sentence

AS_OF = Parameter(
    name="as_of",
    description="A position of the log, or a time: what was known then.",
    schema={"type": "string", "pattern": r"^(\d{1,18}|\d{4}-\d{2}-\d{2}[Tt ].*)$"},
)
_NO_MOMENT = Sentence(
    "Give a position, a time in ISO 8601, or a day such as 2026-11-21.",
    "Anzugeben ist eine Position, ein Zeitpunkt nach ISO 8601 oder ein Tag wie 2026-11-21.",
)
_NO_VERSION = Sentence(
    "Give the version of an event that has staged a payload.",
    "Anzugeben ist die Version eines Ereignisses, das einen Inhalt vorgemerkt hat.",
)
_encoder = msgspec.json.Encoder(decimal_format="number")


def as_of(request: Request) -> AsOf:
    """The moment in `?as_of=`. Raises NotValid."""
    text = request.query_params.get("as_of")
    if text is None:
        return NOW
    try:
        return AsOf.of(text)
    except ValueError as error:
        raise _not_valid(Problem("as_of", "invalid", _NO_MOMENT)) from error


class HistoryQueries:
    """The handlers of …/history/ and …/history/difference/."""

    def __init__(self, services: Services) -> None:
        self._ledger = services.ledger
        self._pool = services.pool

    async def history(self, request: Request, call: Call) -> Response:
        """200 with every event of the account, oldest first; 404 when there is no import of it."""
        events = await self._events(request)
        return json_response([history_entry(recorded) for recorded in events])

    async def difference(self, request: Request, call: Call) -> Response:
        """200 with what differs between the payloads of two staged events, named by their versions."""
        events = of_import(await self._events(request))
        stream, digests = events[0].stream, [_digest(events, request, name) for name in ("from", "to")]
        bodies = [(await in_thread(self._ledger.payloads, {stream: digest})).get(stream) for digest in digests]
        before, after = bodies
        if before is None or after is None:
            raise not_found(Sentence("A payload was erased.", "Ein Inhalt wurde gelöscht."))
        return JsonResponse(_encoder.encode(difference(before, after)), 200)

    async def _events(self, request: Request) -> list[Recorded]:
        supplier, external = identifier(request, "supplier"), identifier(request, "external")
        events = await read(self._pool, account_history, supplier, external, as_of(request))
        if not any(recorded.stream == stream_of(supplier, external) for recorded in events):
            raise not_found()
        return events


def _digest(events: list[Recorded], request: Request, name: str) -> str:
    """The digest of the payload that the event of this version has staged. Raises NotValid."""
    asked = request.query_params.get(name, "")
    for recorded in events:
        if isinstance(recorded.event, ImportStaged) and str(recorded.version) == asked:
            return recorded.event.payload_sha256
    raise _not_valid(Problem(name, "invalid_choice", _NO_VERSION))


def _not_valid(problem: Problem) -> NotValid:
    return NotValid(
        "validation_error",
        Sentence("The query could not be understood.", "Die Abfrage wurde nicht verstanden."),
        [problem],
    )


def _version(name: str) -> Parameter:
    return Parameter(
        name=name,
        description="The version of an event in the import's stream that has staged a payload.",
        schema={"type": "integer", "minimum": 1},
        is_required=True,
    )


OPERATIONS = (
    Operation(
        handler=HistoryQueries.history,
        name="read_history",
        method="GET",
        path=f"{ACCOUNT_PATH}history/",
        tag=ACCOUNTS,
        summary="Everything that happened to an account, for auditors and staff.",
        answers={200: list[HistoryEntry]},
        roles=AUDITORS,
        query=(AS_OF,),
        refuses=(400, 404),
    ),
    Operation(
        handler=HistoryQueries.difference,
        name="read_payload_difference",
        method="GET",
        path=f"{ACCOUNT_PATH}history/difference/",
        tag=ACCOUNTS,
        summary="What differs between two payloads of an account, for auditors and staff.",
        answers={200: list[FieldChange]},
        roles=AUDITORS,
        query=(_version("from"), _version("to")),
        refuses=(400, 404),
    ),
)
