"""State of a push, which sends lines, reads receipts, writes failures and counts errors."""

import collections
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from importledger_client import notes
from importledger_client.answers import FieldError, Receipt, Summary
from importledger_client.batches import Batch
from importledger_client.display import Pace
from importledger_client.error_counts import ErrorCounts, kinds_of
from importledger_client.failures import FailureFiles, is_of_failures
from importledger_client.language import _
from importledger_client.notes import Note
from importledger_client.protocol import is_blank
from importledger_client.sent_accounts import SentAccounts
from importledger_client.sources import Line, Source, account_in, for_supplier, identity_of, number_of

_OF_SUPPLIER = frozenset({"invalid_choice", "import_supplier_migration_not_ongoing"})
"""Codes of refusals because the supplier is unknown to the service, or accepts no accounts at present."""
CHECKED_FROM = 100
"""Receipts after which a limit in percent is checked. For a smaller push, the limit is checked at the end."""


class Limit(msgspec.Struct, frozen=True):
    """The most refusals: a number, or a share of all accounts."""

    count: int | None = None
    percent: float | None = None

    def is_passed(self, refused: int, receipts: int, *, is_end: bool) -> bool:
        if self.count is not None:
            return refused > self.count
        if self.percent is None or (receipts < CHECKED_FROM and not is_end) or not receipts:
            return False
        return 100 * refused / receipts > self.percent


class Pushing:
    """A push in progress: the lines that were sent, and their receipts."""

    def __init__(self, run: str, mode: str, supplier: str | None, sources: list[Source], rate: float | None) -> None:
        self.run, self.mode, self.supplier, self.sources, self.rate = run, mode, supplier, sources, rate
        self.files = [name for source in sources for name in source.files]
        self.suppliers: set[str] = {supplier} if supplier else set()
        self.accepted, self.replayed = collections.Counter[str](), collections.Counter[str]()
        """Numbers of accounts that were accepted, and replayed, by supplier."""
        self.summary = Summary()
        self.error_counts, self.warned = ErrorCounts(), ErrorCounts()
        self.pace = Pace()
        self.ending = ""
        """Sentence on why the push has ended, "" after a complete push. Then no further line is sent."""
        self.is_whole = False
        """True once all lines have receipts."""
        self.has_files = True
        """False if the files of failures could not be written."""
        self.refused_for_supplier = 0
        """Number of accounts that were refused because of their supplier."""
        self.supplier_sentence = ""
        self.on_line: Callable[[Line, Source], None] | None = None
        """Function that is called with each line before the line is sent."""
        self._sent = SentAccounts()
        self._waiting_for_receipt: dict[int, Line] = {}
        """Sent lines, by their numbers among the sent lines."""

    def lines_to_send(self, files: FailureFiles) -> Iterator[bytes]:
        """Yield the accounts, and refuse lines that cannot be sent."""
        sent = 0
        for line in self._lines():
            if self.ending:
                return
            line.content = account_in(line.content)
            if not line.errors and is_blank(line.content):
                line.errors = (FieldError("", "parse_error", _("The account must not be empty.")),)
            if self.supplier and not line.errors:
                line.content = for_supplier(line.content, self.supplier)
            if not line.errors and self._has_other_content(line):
                sentence = _("The number must belong to one account: an earlier line has it with other content.")
                line.errors = (FieldError("external_account_number", "invalid", sentence),)
            if line.errors:
                refusal = Receipt(
                    external_account_number=line.external or number_of(line.content),
                    status="REFUSED",
                    code=line.errors[0].code,
                    errors=line.errors,
                )
                self._count(line, refusal, files)
                continue
            sent += 1
            if self.rate:
                time.sleep(max(0.0, sent / self.rate - self.pace.seconds))
            self._waiting_for_receipt[sent] = line
            yield line.content

    def _has_other_content(self, line: Line) -> bool:
        """Return True if an earlier line has the account with other content: the service would keep either of them.

        Also record the supplier of the account.
        """
        supplier, number = identity_of(line.content)
        if supplier:
            line.supplier = supplier
            self.suppliers.add(supplier)
        return number != b"" and self._sent.has_other((supplier, number), line.content)

    def _lines(self) -> Iterator[Line]:
        for source in self.sources:
            for line in source.lines():
                if self.on_line is not None:
                    self.on_line(line, source)
                yield line
            self.summary = msgspec.structs.replace(self.summary, lines=self.summary.lines + source.empty_lines)

    def add_receipts(self, batch: Batch, files: FailureFiles) -> None:
        for receipt in batch.receipts:
            self._count(self._waiting_for_receipt.pop(receipt.line), receipt, files)

    def _count(self, line: Line, receipt: Receipt, files: FailureFiles) -> None:
        previous = self.summary
        self.summary = Summary(
            lines=previous.lines + 1,
            accepted=previous.accepted + (not receipt.is_refused and not receipt.replayed),
            replayed=previous.replayed + (not receipt.is_refused and receipt.replayed),
            refused=previous.refused + receipt.is_refused,
            warned=previous.warned + bool(receipt.warnings),
        )
        if not receipt.is_refused:
            (self.replayed if receipt.replayed else self.accepted)[line.supplier] += 1
        external, errors = receipt.external_account_number, receipt.errors
        if receipt.is_refused:
            errors = errors or (FieldError("", receipt.code or "refused", _("The account was refused.")),)
            self.error_counts.add(kinds_of(external, line.content, errors))
            if sentences := [error.detail for error in errors if _is_of_supplier(error)]:
                self.refused_for_supplier, self.supplier_sentence = self.refused_for_supplier + 1, sentences[0]
        if receipt.warnings:
            self.warned.add(kinds_of(external, line.content, receipt.warnings))
        if errors or receipt.warnings:
            files.add(line.number, external, line.content, errors, receipt.warnings)

    @property
    def receipts(self) -> int:
        """Number of lines with a result: all lines that are not empty."""
        return self.summary.accepted + self.summary.replayed + self.summary.refused

    @property
    def has_no_supplier(self) -> bool:
        """True if a supplier was refused and no account accepted, so that the service has no account of the run."""
        is_of_all = self.refused_for_supplier == self.receipts or len(self.suppliers) < 2
        return self.refused_for_supplier > 0 and self.summary.refused == self.receipts and is_of_all

    def share(self) -> float | None:
        """Return the share of the files that has been read, or None if the size is unknown."""
        if any(source.size is None for source in self.sources):
            return None
        total = sum(source.size or 0 for source in self.sources)
        return sum(source.read or 0 for source in self.sources) / total if total else None

    def stored_suppliers(self) -> set[str]:
        """Return the suppliers of which the service has accounts of this push."""
        return {*self.accepted, *self.replayed} - {""}

    def save_note(self) -> None:
        """Write the note of the run.

        The note also has the suppliers of earlier pushes, because the service has accounts of these suppliers.
        """
        previous = notes.load_note(self.run, Path.cwd())
        if self.has_no_supplier or (previous is not None and not self.receipts):  # nothing of the run has changed
            return
        files, mapping, supplier = self.files, self.sources[0].mapping, self.supplier or ""
        suppliers = self.stored_suppliers() or self.suppliers
        suppliers |= set(previous.suppliers if previous else ())
        if previous is not None and all(map(is_of_failures, files)):  # the first push of the run had the whole book
            files, mapping, supplier = previous.files, previous.mapping, supplier or previous.supplier
        pushed = (self.files, self.sources[0].mapping)
        note = Note(self.run, sorted(suppliers), self.mode, files, mapping, *pushed, supplier)
        notes.save_note(note, Path.cwd())


def _is_of_supplier(error: FieldError) -> bool:
    return error.attr == "import_supplier" and error.code in _OF_SUPPLIER
