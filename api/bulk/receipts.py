"""What is answered for each line, and at the end."""

from typing import Any, Literal

from api.languages import JSON, Language
from schemas.base import Problem, Wire
from schemas.sentence import Sentence

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


def whole(code: str, detail: Sentence) -> tuple[Problem, ...]:
    """A problem of the line as a whole."""
    return (Problem("non_field_errors", code, detail),)


TOO_LONG = "request_too_large"


def encode_line(line: Any, language: Language = "en") -> bytes:
    """A line of an answer, without its end."""
    return JSON[language].encode(line)
