"""Store refused attempts: which accounts were refused, when and why.

All attempts of a second are written together. A crash loses the attempts of the last second. Attempts beyond
MAX_WAITING are counted, but not stored.
"""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import islice
from uuid import UUID, uuid4

import psycopg
import structlog

from api.http.database import in_thread
from api.intake.typed_names import storable_number
from eventstore.clock import now
from eventstore.errors import LedgerError
from eventstore.log.ledger import Ledger
from projections.auxiliary.refused_attempts import MAX_PATH, MAX_PROBLEMS, Attempt, write_attempts
from schemas.base import Problem, problem_name
from schemas.reading.documented_paths import documented_path

INTERVAL_S = 1.0
MAX_WAITING = 2_000
"""Attempts that wait for the next write. Of further attempts, only the number is logged."""

logger = structlog.get_logger()


def names_of(problems: Sequence[Problem]) -> tuple[str, ...]:
    """Return the problems of an attempt as they are stored: codes and paths, without any undocumented name."""
    return tuple(
        dict.fromkeys(problem_name(p.code, documented_path(p.attr)[:MAX_PATH]) for p in problems[:MAX_PROBLEMS])
    )


class RefusedAttempts:
    """Attempts of one api process that are not stored yet."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waiting: dict[UUID, Attempt] = {}
        self._discarded = 0

    def note(self, operation: str, supplier: str, external: str, code: str, problems: Sequence[str]) -> None:
        """Note that a request about this account was refused now, for problems with these names (`names_of`).

        Does nothing if the account number cannot be stored.
        """
        number = storable_number(external)
        if not number:
            return
        if len(self._waiting) >= MAX_WAITING:
            self._discarded += 1
            return
        self._waiting[uuid4()] = Attempt(
            supplier=supplier,
            external_account_number=number,
            attempted_at=now(),
            operation=operation,
            code=code,
            problems=tuple(problems),
        )

    async def keep_writing(self) -> None:
        """Store the notes at every interval."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            await self.write()

    async def write(self) -> None:
        """Store the notes since the last time. While the database is unavailable, at most MAX_WAITING of them are kept.

        Any other error of the database drops them, with a warning.

        An attempt keeps its id, so that it is stored once even if the outcome of a write is unknown.
        """
        waiting, self._waiting = self._waiting, {}
        if self._discarded:
            logger.warning("too many refused attempts: some are not stored", attempts=self._discarded)
            self._discarded = 0
        if not waiting:
            return
        try:
            await in_thread(self._store, waiting)
        except LedgerError as error:
            logger.warning("storing refused attempts later", reason=type(error).__name__)
            self._waiting = dict(islice((waiting | self._waiting).items(), MAX_WAITING))
        except psycopg.Error as error:
            logger.warning("refused attempts were lost", attempts=len(waiting), reason=type(error).__name__)

    def _store(self, attempts: Mapping[UUID, Attempt]) -> None:
        with self._ledger.connection() as connection:
            write_attempts(connection, attempts)
