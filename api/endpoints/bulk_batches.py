"""Batches of a bulk request: code that bulk imports of accounts and of records share."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from api.admission import Call
from api.bulk.lines import Line
from api.bulk.receipts import Receipt, refusals_of
from api.http.limits import MAX_LINE_BYTES
from api.services import Services
from eventstore.aggregates.run import Mode
from projections.views.import_supplier import KnownSupplier
from schemas.sentence import Sentence

TOO_LONG_DETAIL = Sentence(
    f"A line must have at most {MAX_LINE_BYTES} bytes.", f"Eine Zeile darf höchstens {MAX_LINE_BYTES} Bytes haben."
)


class Item(msgspec.Struct):
    """A line of a batch, and the account that it names."""

    line: Line
    supplier: str = ""
    external: str = ""

    @property
    def stream(self) -> str:
        """Stream to which the line appends, or ""."""
        return ""


AnyItem = TypeVar("AnyItem", bound=Item)


class Batch(msgspec.Struct, frozen=True):
    """Prepared lines, and their suppliers that the caller may access, by code."""

    items: list[Any]
    suppliers: Mapping[str, KnownSupplier]


class BatchWork:
    """The work of one bulk request."""

    def __init__(self, services: Services, call: Call, operation: str, run: str, mode: Mode) -> None:
        self._call = call
        self._operation = operation
        self._run = run
        self._mode = mode
        self._ledger = services.ledger
        self._directory = services.directory
        self._limit = services.limit
        self._executor = services.executor
        self._counts = services.runs
        self._attempts = services.attempts
        self._acknowledgements = services.acknowledgements

    async def _suppliers_of(self, items: Sequence[Item]) -> dict[str, KnownSupplier]:
        """Return the existing suppliers of the items that the caller may access, by code."""
        codes = {item.supplier for item in items if item.supplier and self._call.key.may_touch(item.supplier)}
        known = {code: await self._directory.supplier(code) for code in codes}
        return {code: entry for code, entry in known.items() if entry is not None}

    def _supplier_of(self, item: Item, batch: Batch) -> str:
        """Return the supplier for which a line is counted: the line's supplier, or the only supplier of the caller's
        key, or "".
        """
        return item.supplier if item.supplier in batch.suppliers else self._call.key.only_supplier

    async def _count_refusals(self, batch: Batch, receipts: Sequence[Receipt]) -> bool:
        """Count refused lines by supplier and run, and record refused attempts.

        Return True if there are refused lines.
        """
        refusals = await self._executor.in_thread(refusals_of, receipts)
        for item, receipt in zip(batch.items, receipts, strict=True):
            if receipt.status == "REFUSED" and (supplier := self._supplier_of(item, batch)):
                refusal = refusals[receipt.line]
                self._counts.refuse(supplier, self._run, self._mode, refusal.places)
                number = receipt.external_account_number
                self._attempts.note(self._operation, supplier, number, receipt.code or "", refusal.names)
        return bool(refusals)


def waves(items: Sequence[AnyItem]) -> list[list[AnyItem]]:
    """Return the items in order, in groups without repeated streams."""
    groups: list[list[AnyItem]] = [[]]
    streams: set[str] = set()
    for item in items:
        if item.stream and item.stream in streams:
            groups.append([])
            streams = set()
        groups[-1].append(item)
        streams.add(item.stream)
    return groups
