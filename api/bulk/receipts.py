"""Receipts of a bulk answer, one for each line, and its last line."""

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
    """Result of a line.

    `code` and `errors` are the reason if the line was REFUSED. `replayed` is True if it was accepted before.
    """

    line: int
    """Number of the line from 1, blank lines counted (Zeilennummer)."""
    external_account_number: str
    """The account's identifier in the old system; empty if the line does not state it."""
    status: ReceiptStatus
    """Result of the line (Ergebnis): PENDING, VALID, IMPORTED or REFUSED."""
    replayed: bool = False
    """True if the line was accepted before (Wiederholung)."""
    service_identifier: str | None = None
    """Number of the account (Vertragskontonummer); null while there is none."""
    code: str | None = None
    """Reason of the refusal (Fehlercode); null if the line was not refused."""
    warnings: tuple[Problem, ...] = ()
    """Warnings (Warnungen)."""
    errors: tuple[Problem, ...] = ()
    """Errors, the reasons of the refusal (Fehler)."""


class Summary(Wire, frozen=True, kw_only=True):
    """Number of lines, including blank lines, and number of lines with each result."""

    lines: int
    """Lines of the body, including blank lines (Anzahl der Zeilen)."""
    accepted: int
    """Number of accepted lines (angenommen)."""
    replayed: int
    """Number of lines that were accepted before (wiederholt)."""
    refused: int
    """Number of refused lines (abgelehnt)."""


class BulkEnd(Wire, frozen=True, kw_only=True):
    """Last line of an answer to a body that arrived completely."""

    summary: Summary
    """Results of all lines (Zusammenfassung)."""


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
    """Return the receipt.

    The receipt of a refused line has the account number as sent, even if the line is not valid JSON.
    """
    if receipt.external_account_number or receipt.status != "REFUSED":
        return receipt
    return msgspec.structs.replace(receipt, external_account_number=await typed_number_of(line))


def whole(code: str, detail: Sentence) -> tuple[Problem, ...]:
    """Return a problem of the whole line."""
    return (Problem("non_field_errors", code, detail),)


TOO_LONG = "request_too_large"


class Refusal(msgspec.Struct, frozen=True):
    """Problems of a refused line: `places` are names `code@path` for counts, `names` are the names that are stored."""

    places: set[str]
    names: tuple[str, ...]


def refusals_of(receipts: Sequence[Receipt]) -> dict[int, Refusal]:
    """Return the refusals by line number. This is slow for many errors: call it in a thread."""
    return {
        receipt.line: Refusal(places_of(receipt.errors), names_of(receipt.errors))
        for receipt in receipts
        if receipt.status == "REFUSED"
    }


def warned_of(receipts: Sequence[Receipt]) -> dict[int, set[str]]:
    """Return the names (`code@path`) of the warnings of each valid line, by line number.

    This is slow for many warnings: call it in a thread.
    """
    return {r.line: places_of(r.warnings) for r in receipts if r.status == "VALID" and r.warnings}


def encode_receipts(receipts: Sequence[Receipt], language: Language) -> list[bytes]:
    """Return the receipts as lines, in chunks of about 64 KiB. This is slow for many errors: call it in a thread."""
    chunks, chunk = [], bytearray()
    for receipt in receipts:
        chunk += encode_line(receipt, language) + b"\n"
        if len(chunk) > FLUSH_BYTES:
            chunks.append(bytes(chunk))
            chunk.clear()
    return [*chunks, bytes(chunk)] if chunk else chunks


def encode_line(line: Any, language: Language = "en") -> bytes:
    """Return a line of an answer, without its end."""
    return JSON[language].encode(line)
