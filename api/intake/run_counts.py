"""Count lines and requests of a run that do not create an account.

Requests without a run are counted by supplier only (`refusal_counts.py`).
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from api.intake.count_appends import CountAppends, batch_name
from api.intake.refusal_counts import RefusalCounts, add_numbers
from api.intake.run_names import RunNames
from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.run import CountRun, Mode, ReplayAccounts, stream_of
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections.views.import_run import not_in_run

INTERVAL_S = 1.0
MAX_ACCOUNTS = 2_000
"""Accounts per event. More accounts are divided over several events."""


class _Count(msgspec.Struct):
    since: datetime
    valid: int = 0
    refused: int = 0
    counts: Counter[str] = msgspec.field(default_factory=Counter)
    warned: int = 0
    warnings: Counter[str] = msgspec.field(default_factory=Counter)
    accounts: dict[str, None] = msgspec.field(default_factory=dict)


class RunCounts(CountAppends):
    """Counts of one api process.

    Receipts of bulk requests wait for `append`. Counts of single requests are appended every second; a crash loses the
    last second.
    """

    def __init__(self, ledger: Ledger, refusals: RefusalCounts) -> None:
        super().__init__(ledger, self._drain_counts, interval_s=INTERVAL_S, name="counts of runs")
        self._refusals = refusals
        self.names = RunNames(ledger)
        self._runs: dict[tuple[str, str, Mode], _Count] = {}

    def refuse(self, supplier: str, run: str, mode: Mode, places: Iterable[str]) -> None:
        """Count a refused line or request, and each name (`code@path`) of its problems once."""
        if not run:
            self._refusals.count(supplier, places)
            return
        count = self._of(supplier, run, mode)
        count.refused += 1
        add_numbers(count.counts, dict.fromkeys(places, 1))

    def validate(self, supplier: str, run: str, warnings: Collection[str] = ()) -> None:
        """Count a valid line of a run with mode `validate`, and each name (`code@path`) of its warnings once."""
        if run:
            count = self._of(supplier, run, "validate")
            count.valid += 1
            count.warned += bool(warnings)
            add_numbers(count.warnings, dict.fromkeys(warnings, 1))

    async def join(self, supplier: str, run: str, mode: Mode, externals: Sequence[str]) -> None:
        """Add accounts that existed before to the run, except accounts that are known to belong to the run."""
        for external in await asyncio.to_thread(self._new_in_run, supplier, run, externals):
            self._of(supplier, run, mode).accounts[external] = None

    def _new_in_run(self, supplier: str, run: str, externals: Sequence[str]) -> list[str]:
        with self._ledger.connection() as connection:
            return not_in_run(connection, supplier, run, externals)

    def _of(self, supplier: str, run: str, mode: Mode) -> _Count:
        return self._runs.setdefault((supplier, run, mode), _Count(now()))

    async def _drain_counts(self) -> Mapping[str, Command]:
        """Take the counts. Beyond the limit of new runs, only the supplier's counts are kept."""
        names = {(supplier, run) for supplier, run, _ in self._runs}
        admitted = await self.names.admitted(names)
        commands: dict[str, Command] = {}
        for supplier, run, mode in [key for key in self._runs if key[:2] in names]:
            count = self._runs.pop((supplier, run, mode))
            if (supplier, run) in admitted:
                commands |= {stream_of(supplier, run, batch_name()): command for command in _commands(mode, count)}
            else:
                self._refusals.add(supplier, count.counts)
        return commands


def _commands(mode: Mode, count: _Count) -> Iterator[CountRun | ReplayAccounts]:
    if count.valid or count.refused:
        yield CountRun(
            since=count.since,
            mode=mode,
            valid=count.valid,
            refused=count.refused,
            counts=dict(count.counts.most_common()),
            warned=count.warned,
            warnings=dict(count.warnings.most_common()),
        )
    accounts = [*count.accounts]
    for at in range(0, len(accounts), MAX_ACCOUNTS):
        yield ReplayAccounts(accounts=tuple(accounts[at : at + MAX_ACCOUNTS]), mode=mode)
