"""Counts what is sent under a run and leaves no account behind, and appends it to the log soon afterwards.

What comes without a run is counted by supplier alone (`refusal_counts.py`).
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec
import structlog

from api.database import in_thread
from api.refusal_counts import MAX_PLACES, OTHER, RefusalCounts
from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.run import CountRun, Mode, ReplayAccounts, stream_of
from eventstore.clock import now
from eventstore.errors import LedgerError
from eventstore.log.ledger import Ledger
from projections.import_run import not_in_run

INTERVAL_S = 1.0
MAX_ACCOUNTS = 2_000
"""Accounts that one event names."""

logger = structlog.get_logger()


class _Count(msgspec.Struct):
    since: datetime
    valid: int = 0
    refused: int = 0
    counts: Counter[str] = msgspec.field(default_factory=Counter)
    accounts: dict[str, None] = msgspec.field(default_factory=dict)


class RunCounts:
    """The counts of one api process; a crash loses the last second's, and sending again makes good for accounts."""

    def __init__(self, ledger: Ledger, refusals: RefusalCounts, *, interval_s: float = INTERVAL_S) -> None:
        self._ledger = ledger
        self._refusals = refusals
        self._interval_s = interval_s
        self._runs: dict[tuple[str, str, Mode], _Count] = {}
        self._lock = asyncio.Lock()

    def refuse(self, supplier: str, run: str, mode: Mode, places: Iterable[str]) -> None:
        """Count a refused line or request, and each place of its problems (`places_of`) once."""
        if not run:
            self._refusals.count(supplier, places)
            return
        count = self._of(supplier, run, mode)
        count.refused += 1
        for name in places:
            count.counts[name if name in count.counts or len(count.counts) < MAX_PLACES else OTHER] += 1

    def validate(self, supplier: str, run: str) -> None:
        """Count a line that was valid, and is not kept."""
        if run:
            self._of(supplier, run, "validate").valid += 1

    def join(self, supplier: str, run: str, mode: Mode, external: str) -> None:
        """Remember that an account which was there before belongs to the run as well."""
        self._of(supplier, run, mode).accounts[external] = None

    async def keep_appending(self) -> None:
        """Append what has been counted, again and again."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self.append()

    async def append(self) -> None:
        """Append what has been counted since the last time. What cannot be stored is kept for the next time."""
        async with self._lock:  # a run's stream takes one append at a time
            counted, self._runs = self._runs, {}
            for (supplier, run, mode), count in counted.items():
                try:
                    await in_thread(self._append, supplier, run, mode, count)
                except LedgerError as error:
                    logger.warning("counts are appended later", supplier=supplier, reason=type(error).__name__)
                    self._take_back(self._of(supplier, run, mode), count)

    def _append(self, supplier: str, run: str, mode: Mode, count: _Count) -> None:
        stream = stream_of(supplier, run)
        commands: list[Command] = []
        if count.valid or count.refused:
            counts = dict(count.counts.most_common())
            commands.append(
                CountRun(since=count.since, mode=mode, valid=count.valid, refused=count.refused, counts=counts)
            )
        new = self._new_accounts(supplier, run, [*count.accounts])
        commands += [ReplayAccounts(accounts=accounts, mode=mode) for accounts in new]
        for command in commands:
            self._ledger.execute(stream, command, at=now(), by="api")
            _forget(count, command)

    def _new_accounts(self, supplier: str, run: str, accounts: Sequence[str]) -> list[tuple[str, ...]]:
        """The accounts that the run does not have yet, in portions. An account may be named twice."""
        if not accounts:
            return []
        with self._ledger.connection() as connection:
            new = not_in_run(connection, supplier, run, accounts)
        return [tuple(new[at : at + MAX_ACCOUNTS]) for at in range(0, len(new), MAX_ACCOUNTS)]

    def _of(self, supplier: str, run: str, mode: Mode) -> _Count:
        return self._runs.setdefault((supplier, run, mode), _Count(now()))

    @staticmethod
    def _take_back(into: _Count, count: _Count) -> None:
        into.since = min(into.since, count.since)
        into.valid += count.valid
        into.refused += count.refused
        into.counts.update(count.counts)
        into.accounts |= count.accounts


def _forget(count: _Count, command: Command) -> None:
    """What is in the log already is not counted again."""
    match command:
        case CountRun():
            count.valid = count.refused = 0
            count.counts.clear()
        case ReplayAccounts(accounts=accounts):
            for external in accounts:
                count.accounts.pop(external, None)
        case _:
            pass
