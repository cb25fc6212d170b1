"""What a bulk resource does with its batches; the answer (`answer.py`) knows no more of it than this."""

from collections.abc import Sequence
from typing import Any, Protocol

from api.bulk.lines import Line
from api.bulk.receipts import Receipt

COUNT_PATIENCE_S = 15.0
"""Longest wait of receipts for the counts of their run, in seconds. Afterwards the request ends without them."""


class BulkWork(Protocol):
    """One request's work."""

    async def prepare(self, lines: Sequence[Line]) -> Any:
        """All that can be done for a batch before those in front of it have ended; several at a time."""

    async def settle(self, prepared: Any) -> list[Receipt]:
        """Carry the batch out, in order; a receipt for each line. What receipts say is durable."""
