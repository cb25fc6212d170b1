"""Append counts of runs and refusals to the log, each batch exactly once, even if the outcome of an append is unknown.

A batch of counts is a separate stream with a random name. The append of a batch is repeated under the same name until
it is certainly stored: a stream with a batch accepts no second batch.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping

import psycopg

from api.http.database import with_timeout
from api.http.shared_runs import SharedRuns
from eventstore.aggregates.aggregate import Command
from eventstore.clock import now
from eventstore.errors import LedgerError, StoreUnavailable
from eventstore.log.group_commit import ANSWER_TIMEOUT_S
from eventstore.log.ledger import Ledger
from telemetry.supervision import supervision

RETRY_S = 0.2


def batch_name() -> str:
    """Return a name for a batch of counts that no other batch has."""
    return secrets.token_hex(8)


class CountAppends:
    """Appends the commands that `drain` returns, by stream.

    `drain` is called again once all these commands are stored.
    """

    def __init__(
        self, ledger: Ledger, drain: Callable[[], Awaitable[Mapping[str, Command]]], *, interval_s: float, name: str
    ) -> None:
        """`name` is the name of the work for reports of failures."""
        self._ledger = ledger
        self._name = name
        self._drain = drain
        self._interval_s = interval_s
        self._unconfirmed: Mapping[str, Command] = {}
        """Batches whose outcome is unknown."""
        self._appends = SharedRuns(self._append)

    async def append(self, *, within_s: float = ANSWER_TIMEOUT_S) -> None:
        """Wait until all counts from before this call are stored.

        While the store is unavailable, tries again until the time is over. Raises LedgerError.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while True:
            try:
                return await with_timeout(self._appends.run(), within_s=deadline - loop.time())
            except StoreUnavailable:
                if loop.time() + RETRY_S >= deadline:
                    raise
                await asyncio.sleep(RETRY_S)

    async def keep_appending(self) -> None:
        """Append at every interval."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self.append_or_log()

    async def append_or_log(self) -> None:
        """Append the counts. If they cannot be stored, report the failure, and keep the counts for the next time."""
        try:
            await self.append()
        except (LedgerError, psycopg.Error) as error:
            supervision.failed(self._name, error, is_waiting=isinstance(error, LedgerError))
        else:
            supervision.works(self._name)

    async def _append(self) -> None:
        while commands := self._unconfirmed or await self._drain():
            is_repeated, self._unconfirmed = commands is self._unconfirmed, commands
            await asyncio.to_thread(self._store, commands, is_repeated=is_repeated)
            self._unconfirmed = {}

    def _store(self, commands: Mapping[str, Command], *, is_repeated: bool) -> None:
        self._ledger.execute_many(commands, at=now(), by="api")
        if is_repeated:  # an earlier append may be on the primary only
            self._ledger.wait_for_standby()
