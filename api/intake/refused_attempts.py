"""Notes which accounts were refused, beside the requests: written once a second, in one transaction.

A crash loses the last second's. A flood is bounded: what does not fit into a second's room is counted, not kept.
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
from projections.unlogged.refused_attempts import MAX_PATH, MAX_PROBLEMS, Attempt, write_attempts
from schemas.base import Problem, problem_name
from schemas.reading.places import documented_path

INTERVAL_S = 1.0
ROOM = 2_000
"""Attempts that are kept between two writes."""

logger = structlog.get_logger()


def names_of(problems: Sequence[Problem]) -> tuple[str, ...]:
    """The problems of an attempt as they are kept: codes and paths, without any name that is not documented."""
    return tuple(
        dict.fromkeys(problem_name(p.code, documented_path(p.attr)[:MAX_PATH]) for p in problems[:MAX_PROBLEMS])
    )


class RefusedAttempts:
    """The attempts of one api process that are not stored yet."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waiting: dict[UUID, Attempt] = {}
        self._left_out = 0

    def note(self, operation: str, supplier: str, external: str, code: str, problems: Sequence[str]) -> None:
        """Remember that a request about this account was refused now, for problems of these names (`names_of`).

        Nothing where no number can be stored.
        """
        number = storable_number(external)
        if not number:
            return
        if len(self._waiting) >= ROOM:
            self._left_out += 1
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
        """Store what has been noted, again and again."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            await self.write()

    async def write(self) -> None:
        """Store what has been noted since the last time. What cannot be stored is kept for the next time.

        An attempt keeps its id, so that one whose write has an unknown outcome is stored once.
        """
        waiting, self._waiting = self._waiting, {}
        if self._left_out:
            logger.warning("refused attempts are left out", attempts=self._left_out)
            self._left_out = 0
        if not waiting:
            return
        try:
            await in_thread(self._store, waiting)
        except LedgerError as error:
            logger.warning("refused attempts are stored later", reason=type(error).__name__)
            self._waiting = dict(islice((waiting | self._waiting).items(), ROOM))
        except psycopg.Error as error:
            logger.warning("refused attempts cannot be stored", attempts=len(waiting), reason=type(error).__name__)

    def _store(self, attempts: Mapping[UUID, Attempt]) -> None:
        with self._ledger.connection() as connection:
            write_attempts(connection, attempts)
