"""Delay answers about data that was only read until the data is as durable as after a write.

If the wait of a commit for its standby was cancelled, the commit is visible, but perhaps only on the primary. An answer
about such a commit would acknowledge data that a failover loses. A log that does not accept events may be the wrong
log, so its content is not acknowledged either.
"""

import asyncio
from datetime import datetime, timedelta
from functools import partial

from api.http.database import with_timeout
from api.http.shared_runs import SharedRuns
from eventstore.log.ledger import Ledger
from eventstore.operations.fitness import Durability

SETTLED_AFTER = timedelta(minutes=2)
"""Longest time from an event's `recorded_at` to its commit, plus the difference between the clocks of two servers."""


class Acknowledgements:
    """Checks that the log accepts accounts, once for many answers, and waits for a standby if the durability requires
    it.
    """

    def __init__(self, ledger: Ledger, durability: Durability) -> None:
        self._ledger = ledger
        self._is_replicated = durability == "replicated"
        self._intake_checks = SharedRuns(partial(asyncio.to_thread, ledger.require_intake))
        self._replications = SharedRuns(self._replicate)
        self._replicated_until: datetime | None = None
        """Events that were committed before this time are on a standby."""

    async def confirm(self, changed_at: datetime | None = None) -> None:
        """Wait until data that was read before this call may be acknowledged. Raises StoreUnavailable, IntakeStopped.

        After this call, the log accepts events, and a standby has the data if the durability requires it. `changed_at`
        is the time of the last change of the data, for an answer that only shows data. Such an answer does not need a
        log that accepts events, and does not wait if the change is old.
        """
        if changed_at is None:
            await with_timeout(self._intake_checks.run())
        if self._is_replicated and not self._is_settled(changed_at):
            await with_timeout(self._replications.run())

    def _is_settled(self, changed_at: datetime | None) -> bool:
        until = self._replicated_until
        return changed_at is not None and until is not None and changed_at < until - SETTLED_AFTER

    async def _replicate(self) -> None:
        self._replicated_until = await asyncio.to_thread(self._wait)

    def _wait(self) -> datetime:
        """Wait for the standby, and return the database's time before the wait."""
        began_at = self._ledger.time()
        self._ledger.wait_for_standby()
        return began_at
