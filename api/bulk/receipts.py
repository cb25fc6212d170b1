"""The receipts of a bulk answer, one for each line, and its last line."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from api.bulk.lines import Line, typed_number_of
from api.http.languages import JSON, Language
from api.intake.refusal_counts import places_of
from api.intake.refused_attempts import names_of
from schemas.base import Problem, Wire
from schemas.sentence import Sentence

FLUSH_BYTES = 65_536
ReceiptStatus = Literal["PENDING", "VALID", "IMPORTED", "REFUSED"]


class Receipt(Wire, frozen=True, kw_only=True):
    """What became of a line: `code` and `errors` say why it was REFUSED, `replayed` that it was there before."""

    line: int
    """Number of the line from 1, blank ones counted (Zeilennummer)."""
    external_account_number: str
    """The account's identifier in the old system; empty where the line does not say it."""
    status: ReceiptStatus
    """What became of the line (Ergebnis): PENDING, VALID, IMPORTED or REFUSED."""
    replayed: bool = False
    """Whether it was accepted before (Wiederholung)."""
    service_identifier: str | None = None
    """Number of the account (Vertragskontonummer); null while there is none."""
    code: str | None = None
    """Why it was refused (Fehlercode); null where it was not."""
    warnings: tuple[Problem, ...] = ()
    """What was warned of (Warnungen)."""
    errors: tuple[Problem, ...] = ()
    """Why it was refused (Fehler)."""


class Summary(Wire, frozen=True, kw_only=True):
    """How many lines there were, blank ones as well, and what became of them."""

    lines: int
    """Lines of the body, blank ones as well (Anzahl der Zeilen)."""
    accepted: int
    """How many were accepted (angenommen)."""
    replayed: int
    """How many were accepted before (wiederholt)."""
    refused: int
    """How many were refused (abgelehnt)."""


class BulkEnd(Wire, frozen=True, kw_only=True):
    """The last line of an answer to a body that came whole."""

    summary: Summary
    """What became of the lines (Zusammenfassung)."""


class Tally:
    """Counts receipts."""

    def __init__(self) -> None:
        self.accepted = self.replayed = self.refused = 0

    def add(self, receipt: Receipt) -> None:
        if receipt.status == "REFUSED":
            self.refused += 1
        elif receipt.replayed:
            self.replayed += 1
        else:
            self.accepted += 1

    def end(self, lines: int) -> BulkEnd:
        return BulkEnd(
            summary=Summary(lines=lines, accepted=self.accepted, replayed=self.replayed, refused=self.refused)
        )


def refused(
    line: int,
    code: str,
    errors: tuple[Problem, ...],
    *,
    external: str = "",
    service_identifier: str | None = None,
    warnings: tuple[Problem, ...] = (),
) -> Receipt:
    return Receipt(
        line=line,
        external_account_number=external,
        status="REFUSED",
        service_identifier=service_identifier,
        code=code,
        warnings=warnings,
        errors=errors,
    )


async def numbered(receipt: Receipt, line: Line) -> Receipt:
    """The receipt, of a refused line with the account number as the line writes it, whatever else is wrong with it."""
    if receipt.external_account_number or receipt.status != "REFUSED":
        return receipt
    return msgspec.structs.replace(receipt, external_account_number=await typed_number_of(line))


def whole(code: str, detail: Sentence) -> tuple[Problem, ...]:
    """A problem of the line as a whole."""
    return (Problem("non_field_errors", code, detail),)


TOO_LONG = "request_too_large"


class Refusal(msgspec.Struct, frozen=True):
    """What is counted and kept of a receipt that refuses: see `places_of` and `names_of`."""

    places: set[str]
    names: tuple[str, ...]


def refusals_of(receipts: Sequence[Receipt]) -> dict[int, Refusal]:
    """The refused receipts by line number. With many errors this takes a while: call it in a thread."""
    return {
        receipt.line: Refusal(places_of(receipt.errors), names_of(receipt.errors))
        for receipt in receipts
        if receipt.status == "REFUSED"
    }


def warned_of(receipts: Sequence[Receipt]) -> dict[int, set[str]]:
    """The places of the warnings of validated lines, by line number. Call it in a thread, as `refusals_of`."""
    return {r.line: places_of(r.warnings) for r in receipts if r.status == "VALID" and r.warnings}


def encode_receipts(receipts: Sequence[Receipt], language: Language) -> list[bytes]:
    """The receipts as lines, in chunks of some 64 KiB. Of many errors it takes a while: call it in a thread."""
    chunks, chunk = [], bytearray()
    for receipt in receipts:
        chunk += encode_line(receipt, language) + b"\n"
        if len(chunk) > FLUSH_BYTES:
            chunks.append(bytes(chunk))
            chunk.clear()
    return [*chunks, bytes(chunk)] if chunk else chunks


def encode_line(line: Any, language: Language = "en") -> bytes:
    """A line of an answer, without its end."""
    return JSON[language].encode(line)
