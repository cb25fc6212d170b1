"""A push while it goes on: lines out, receipts in, failures written, refusals counted."""

import collections
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from importledger_client import notes
from importledger_client.answers import FieldError, Receipt, Summary
from importledger_client.batches import Batch
from importledger_client.display import Pace
from importledger_client.failures import FailureFiles, shown, value_at
from importledger_client.notes import Note
from importledger_client.protocol import is_blank
from importledger_client.sources import Line, Source, account_in, for_supplier, supplier_of
from importledger_client.tally import Kind, Sample, Tally, kind_of, masked

JUDGED_FROM = 100
"""A share of refusals is judged from so many receipts on, and at the end."""


class Limit(msgspec.Struct, frozen=True):
    """How many refusals are too many: more than so many, or more than such a share of all."""

    count: int | None = None
    percent: float | None = None

    def is_passed(self, refused: int, receipts: int, *, is_end: bool) -> bool:
        if self.count is not None:
            return refused > self.count
        if self.percent is None or (receipts < JUDGED_FROM and not is_end) or not receipts:
            return False
        return 100 * refused / receipts > self.percent


class Pushing:
    """A push while it goes on: what was sent, and what came back."""

    def __init__(self, run: str, mode: str, supplier: str | None, sources: list[Source], rate: float | None) -> None:
        self.run, self.mode, self.supplier, self.sources, self.rate = run, mode, supplier, sources, rate
        self.suppliers: set[str] = {supplier} if supplier else set()
        self.summary = Summary()
        self.tally, self.warned = Tally(), Tally()
        self.pace = Pace()
        self.ending = ""
        self._waiting_for_receipt = collections.deque[Line]()

    def lines_to_send(self, files: FailureFiles) -> Iterator[bytes]:
        """The accounts; what cannot be sent is refused here."""
        sent = 0
        for line in self._lines():
            line.content = account_in(line.content)
            if not line.errors and is_blank(line.content):
                line.errors = (FieldError("", "parse_error", "The account must not be empty."),)
            if line.errors:
                refusal = Receipt(
                    line=line.number,
                    external_account_number=line.external,
                    status="REFUSED",
                    code=line.errors[0].code,
                    errors=line.errors,
                )
                self._count(line, refusal, files)
                continue
            if self.supplier:
                line.content = for_supplier(line.content, self.supplier)
            elif not self.suppliers or sent < JUDGED_FROM:
                self.suppliers |= {found} if (found := supplier_of(line.content)) else set()
            sent += 1
            if self.rate:
                time.sleep(max(0.0, sent / self.rate - self.pace.seconds))
            self._waiting_for_receipt.append(line)
            yield line.content

    def _lines(self) -> Iterator[Line]:
        for source in self.sources:
            yield from source.lines()
            empty = source.empty_lines
            self.summary = msgspec.structs.replace(self.summary, lines=self.summary.lines + empty)

    def take(self, batch: Batch, files: FailureFiles) -> None:
        for receipt in batch.receipts:
            self._count(self._waiting_for_receipt.popleft(), receipt, files)

    def _count(self, line: Line, receipt: Receipt, files: FailureFiles) -> None:
        before = self.summary
        self.summary = Summary(
            lines=before.lines + 1,
            accepted=before.accepted + (not receipt.is_refused and not receipt.replayed),
            replayed=before.replayed + (not receipt.is_refused and receipt.replayed),
            refused=before.refused + receipt.is_refused,
            warned=before.warned + bool(receipt.warnings),
        )
        external, errors = receipt.external_account_number, receipt.errors
        if receipt.is_refused:
            errors = errors or (FieldError("", receipt.code or "refused", "The account was refused."),)
            self.tally.add(kinds_of(external, line.content, errors))
        if receipt.warnings:
            self.warned.add(kinds_of(external, line.content, receipt.warnings))
        if errors or receipt.warnings:
            files.add(line.number, external, line.content, errors, receipt.warnings)

    @property
    def receipts(self) -> int:
        """Lines that something has become of: all but the empty ones."""
        return self.summary.accepted + self.summary.replayed + self.summary.refused

    def share(self) -> float | None:
        """How much of the files has been read; None where that cannot be said."""
        if any(source.size is None for source in self.sources):
            return None
        total = sum(source.size or 0 for source in self.sources)
        return sum(source.read or 0 for source in self.sources) / total if total else None

    def remember(self) -> None:
        files = [name for source in self.sources for name in source.files]
        mapping = self.sources[0].words[-1] if self.sources[0].words else ""
        supplier = self.supplier or ""
        before = notes.recall(self.run, Path.cwd())
        if before is not None and all(".failures." in file for file in files):  # the book is what was pushed first
            files, mapping, supplier = before.files, before.mapping, supplier or before.supplier
        note = Note(self.run, sorted(self.suppliers), self.mode, files, mapping, supplier)
        notes.remember(note, Path.cwd())


def kinds_of(external: str | None, content: bytes, errors: Iterable[FieldError]) -> Iterator[tuple[Kind, Sample]]:
    """The kinds of errors of an account, with samples whose values are masked."""
    try:
        account = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        account = None
    for error in errors:
        value = masked(shown(value_at(account, error.attr)))
        yield kind_of(error), Sample(external or "", value, error.detail)
