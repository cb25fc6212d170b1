"""Counts what is refused, by supplier, and appends it to the log once a minute at most."""

import asyncio
from collections import Counter
from collections.abc import Iterable

import structlog

from api.database import in_thread
from eventstore.aggregates.refusals import CountRefusals, stream_of
from eventstore.clock import now
from eventstore.errors import LedgerError
from eventstore.log.ledger import Ledger
from schemas.base import Problem, problem_name
from schemas.places import place_of

INTERVAL_S = 60.0
MAX_PLACES = 500
OTHER = "other"

logger = structlog.get_logger()


def places_of(problems: Iterable[Problem]) -> set[str]:
    """The problems of one request by code and place, as they are counted."""
    return {problem_name(problem.code, place_of(problem.attr)) for problem in problems}


class RefusalCounts:
    """The counts of one api process; a crash loses the last minute's."""

    def __init__(self, ledger: Ledger, *, interval_s: float = INTERVAL_S) -> None:
        self._ledger = ledger
        self._interval_s = interval_s
        self._counts: dict[str, Counter[str]] = {}
        self._since = now()

    def count(self, supplier: str, places: Iterable[str]) -> None:
        """Count each of these places of one request once."""
        counts = self._counts.setdefault(supplier, Counter())
        for name in places:
            counts[name if name in counts or len(counts) < MAX_PLACES else OTHER] += 1

    async def keep_appending(self) -> None:
        """Append what has been counted, again and again."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self.append()

    async def append(self) -> None:
        """Append what has been counted since the last time. What cannot be stored is kept for the next time."""
        counted, since = self._counts, self._since
        self._counts, self._since = {}, now()
        for supplier, counts in counted.items():
            command = CountRefusals(since=since, counts=dict(counts.most_common()))
            try:
                await in_thread(self._ledger.execute, stream_of(supplier), command, at=now(), by="api")
            except LedgerError as error:
                logger.warning("refusals are appended later", supplier=supplier, reason=type(error).__name__)
                self._counts.setdefault(supplier, Counter()).update(counts)
                self._since = min(self._since, since)
