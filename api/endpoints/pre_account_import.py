"""Imports before accounts (v1): market participants and their fee price sheets.

Each record belongs to the organisation that sends it. Other organisations cannot read or change it, and may use the
same codes and document numbers. Records of the service's operator are shared: all organisations may refer to them. An
organisation that sends a shared record gets the shared record as the answer, unless it has sent its own record before.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from api.access.auth import WRITERS
from api.access.directory import OPERATOR
from api.admission import Call
from api.http.body_checks import run_on_body
from api.http.database import in_thread, with_timeout
from api.http.errors import data_not_valid
from api.http.responses import JsonResponse, encoded, refuse_large_answer
from api.http.status_codes import sentence_of
from api.operation import BEFORE, V1, example_of, operation
from api.services import Endpoint
from eventstore.aggregates import participant, price_sheet
from eventstore.clock import now
from eventstore.log.answers import Answer
from eventstore.log.payloads import Payload
from market.participant import FEE_BOOK, PARTICIPANT_BOOK
from market.rule import RuleBook
from projections.platform.change import changing, participant_change, price_sheet_change
from schemas.base import Problem, Wire
from schemas.market_participant import MarketParticipant
from schemas.price_sheet import FeeImport, PriceSheet
from schemas.reading.meaning import meaning
from schemas.reading.shape import Shape
from schemas.sentence import Sentence

IMPORT_TIMEOUT_S = 30.0
"""Longest transaction of one request, which may have 10,000 sheets [seconds]."""

T = TypeVar("T")
Name = tuple[int | str, ...]
"""Name of a participant (its code) or of a price sheet (its code and document number) within an organisation."""

_PARTICIPANT = Shape(MarketParticipant)
_FEES = Shape(FeeImport)
_SHEET = Shape(PriceSheet)
_canonical = msgspec.json.Encoder(order="sorted")


class PriceSheetsImported(Wire, frozen=True, kw_only=True):
    """Result of an import of price sheets."""

    price_sheets_imported: int
    """Number of imported price sheets (Anzahl der Preisblätter)."""


class PreAccountImport(Endpoint):
    """The handlers of the pre-account imports."""

    @operation(
        "POST",
        f"{V1}/market-participant/import/",
        BEFORE,
        roles=WRITERS,
        answers={201: MarketParticipant, 200: MarketParticipant},
        body=MarketParticipant,
        example=example_of("market_participant"),
    )
    async def import_market_participant(self, request: Request, call: Call) -> Response:
        """Import a market participant. The answer is 201 for a new participant, else 200 and the stored record."""
        record = await run_on_body(call.body, _decode, _PARTICIPANT, PARTICIPANT_BOOK, call.body)
        refuse_large_answer(call.body)
        payload = await run_on_body(call.body, partial(Payload.of, has_person=bool(record.contact_details)), call.body)
        stream = await in_thread(self._stream_for, call.key.owner, record.code)
        command = participant.ImportParticipant(payload_sha256=payload.sha256.hex())
        answer = call.answer(201, call.body)
        change = partial(participant_change, record)
        imported = await in_thread(
            self._ledger.execute,
            stream,
            command,
            at=now(),
            by=call.by,
            payload=payload,
            answer=answer,
            write_rows=changing(change),
        )
        if imported is None:
            return JsonResponse(await in_thread(self._stored, stream), 200)
        return JsonResponse(call.body, 201)

    @operation(
        "POST",
        f"{V1}/market-participant-fees/import/",
        BEFORE,
        roles=WRITERS,
        answers={201: PriceSheetsImported},
        body=FeeImport,
        example=example_of("price_sheets"),
    )
    async def import_price_sheets(self, request: Request, call: Call) -> Response:
        """Import fee price sheets, all of them or none."""
        record = await run_on_body(call.body, _decode, _FEES, FEE_BOOK, call.body)
        _refuse(_repeated(record.price_sheets))
        body = encoded({"price_sheets_imported": len(record.price_sheets)})
        importing = asyncio.to_thread(self._import_sheets, record.price_sheets, call, call.answer(201, body))
        _refuse(await with_timeout(importing, within_s=IMPORT_TIMEOUT_S))
        return JsonResponse(body, 201)

    def _stored(self, stream: str) -> bytes:
        digest = self._ledger.load([stream])[stream].state.payload_sha256
        sent = self._ledger.payloads({stream: digest}).get(stream)
        return sent or encoded(
            {"code": participant.identity_of(stream)[1]}
        )  # the payload cannot be decrypted: its key was not restored

    def _stream_for(self, owner: str, code: int) -> str:
        return self._streams_of(owner, participant.stream_of, [(code,)])[code,]

    def _streams_of(self, owner: str, stream_of: Callable[..., str], names: Collection[Name]) -> dict[Name, str]:
        """Return the streams of the names: the shared stream if only this exists, else the owner's stream."""
        own = {name: stream_of(owner, *name) for name in names}
        shared = {name: stream_of(OPERATOR, *name) for name in names}
        present = self._present({*own.values(), *shared.values()})
        shared_only = {name: shared[name] for name in names if own[name] not in present and shared[name] in present}
        return own | shared_only

    def _present(self, streams: Collection[str]) -> set[str]:
        return {stream for stream, loaded in self._ledger.load(streams).items() if loaded.version}

    def _import_sheets(self, sheets: Sequence[PriceSheet], call: Call, answer: Answer | None) -> list[Problem]:
        """Append all sheets in one transaction, or return the problems that refuse all of them."""
        codes = {(sheet.market_participant_code,) for sheet in sheets}
        participants = self._streams_of(call.key.owner, participant.stream_of, codes)
        known = self._present(participants.values())
        problems = [
            _at(
                index,
                "market_participant_code",
                "market_participant_not_found",
                Sentence("The market participant must exist.", "Der Marktpartner muss existieren."),
            )
            for index, sheet in enumerate(sheets)
            if participants[sheet.market_participant_code,] not in known
        ]
        if problems or not sheets:
            return problems
        sent = {(sheet.market_participant_code, sheet.document_number): sheet for sheet in sheets}
        streams = self._streams_of(call.key.owner, price_sheet.stream_of, sent)
        sheet_of = {streams[name]: sheet for name, sheet in sent.items()}
        index_of = {stream: index for index, stream in enumerate(sheet_of)}
        payloads = {stream: Payload.of(_canonical.encode(sheet)) for stream, sheet in sheet_of.items()}
        commands = self._as_stored(sheet_of, {stream: _command(s, payloads[stream]) for stream, s in sheet_of.items()})
        outcomes = self._ledger.execute_many(
            {stream: commands[stream] for stream in sorted(commands)},  # same order in all requests, to avoid deadlocks
            at=now(),
            by=call.by,
            payloads=payloads,
            answer=answer,
            is_all_or_nothing=True,
            write_rows=changing(lambda recorded: price_sheet_change(sheet_of[recorded.stream], recorded)),
        )
        return [
            _at(index_of[outcome.stream], "document_number", outcome.refusal.code, sentence_of(outcome.refusal))
            for outcome in outcomes
            if outcome.refusal
        ]

    def _as_stored(
        self, sheets: Mapping[str, PriceSheet], commands: Mapping[str, price_sheet.ImportPriceSheet]
    ) -> dict[str, price_sheet.ImportPriceSheet]:
        """Return the commands by stream. If the stored sheet has the same content, the command gets its digest."""
        known = {
            stream: loaded.state.payload_sha256
            for stream, loaded in self._ledger.load(commands).items()
            if loaded.state.payload_sha256 not in ("", commands[stream].payload_sha256)
        }
        stored = self._ledger.each_payload(known) if known else ()
        return {**commands} | {
            stream: msgspec.structs.replace(commands[stream], payload_sha256=known[stream])
            for stream, body in stored
            if meaning(_SHEET.stored(body)) == meaning(sheets[stream])
        }


def _command(sheet: PriceSheet, payload: Payload) -> price_sheet.ImportPriceSheet:
    return price_sheet.ImportPriceSheet(
        payload_sha256=payload.sha256.hex(),
        price_sheet_type=sheet.price_sheet_type,
        active_from=sheet.active_from,
        article_prices=len(sheet.article_prices),
        is_unused=sheet.is_price_sheet_unused,
        preceding_document_number=sheet.preceding_document_number,
    )


def _repeated(sheets: Sequence[PriceSheet]) -> list[Problem]:
    """Return a problem for each document that a request names twice."""
    seen: set[tuple[int, str]] = set()
    problems = []
    for index, sheet in enumerate(sheets):
        name = (sheet.market_participant_code, sheet.document_number)
        if name in seen:
            problems.append(
                _at(
                    index,
                    "document_number",
                    "unique",
                    Sentence(
                        "A request must not name a document twice.",
                        "Eine Anfrage darf ein Dokument nicht zweimal nennen.",
                    ),
                )
            )
        seen.add(name)
    return problems


def _at(index: int, field: str, code: str, detail: Sentence) -> Problem:
    return Problem(f"price_sheets.{index}.{field}", code, detail)


def _decode(shape: Shape[T], book: RuleBook, body: bytes) -> T:
    """Return the body decoded as this shape. Raises NotValid with all shape errors and broken rules."""
    record, shape_errors = shape.examine(body)
    _refuse([*shape_errors, *(breach.problem for breach in book.breaches(record, now(), shape_errors))])
    return record


def _refuse(problems: Sequence[Problem]) -> None:
    if problems:
        raise data_not_valid(*problems)
