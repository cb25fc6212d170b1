"""Fee price sheets: one document of one market participant, imported once. Pure.

A sheet belongs to the organisation that sent it. The operator's organisation has the name "".
"""

from datetime import datetime
from typing import assert_never

from eventstore.aggregates.aggregate import Aggregate, Command, Count, Digest, Event, Events, Instant, State, event_of
from eventstore.errors import Refused


class DocumentDiffers(Refused):
    """A sheet with this document number was imported with other content."""

    code = "unique"
    sentences = (
        "A price sheet with this document number was imported with other content.",
        "Ein Preisblatt mit dieser Dokumentnummer wurde mit anderem Inhalt importiert.",
    )


class PriceSheetImported(Event, frozen=True):
    """The sheet was imported. `payload_sha256` names its content. The platform's rows are dated `imported_at`."""

    payload_sha256: Digest
    imported_at: Instant
    active_from: Instant
    article_prices: Count
    price_sheet_type: str = ""
    is_unused: bool = False
    preceding_document_number: str = ""


class ImportPriceSheet(Command, frozen=True):
    """Store the sheet."""

    payload_sha256: str
    price_sheet_type: str
    active_from: datetime
    article_prices: int
    is_unused: bool
    preceding_document_number: str


class PriceSheetState(State, frozen=True):
    """State of a sheet. `payload_sha256` is empty for an unknown document."""

    payload_sha256: str = ""


def decide(command: ImportPriceSheet, sheet: PriceSheetState, at: datetime) -> PriceSheetImported | None:
    """Return the event that follows; None for the same document again. Raises DocumentDiffers."""
    match command:
        case ImportPriceSheet() if sheet.payload_sha256 == command.payload_sha256:
            return None
        case ImportPriceSheet() if sheet.payload_sha256:
            raise DocumentDiffers
        case ImportPriceSheet():
            return event_of(PriceSheetImported, command, imported_at=at)


def evolve(sheet: PriceSheetState, event: PriceSheetImported) -> PriceSheetState:
    """Return the state after the event."""
    match event:
        case PriceSheetImported(payload_sha256=digest):
            return PriceSheetState(payload_sha256=digest)
        case _:
            assert_never(event)


def stream_of(organisation: str, participant_code: int, document_number: str) -> str:
    """Return the stream id. Names of organisations contain no slash."""
    return f"price-sheet/{organisation}/{participant_code}/{document_number}"


EVENTS: Events = {
    "price_sheet_imported.v1": (PriceSheetImported, ImportPriceSheet),
}
PRICE_SHEET = Aggregate("price-sheet", EVENTS, PriceSheetState(), decide, evolve, parts=4)
