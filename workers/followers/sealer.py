"""The sealer: at an interval, seal the new events and copy the checkpoint to a place outside of the database.

Only one sealer is active, by an advisory lock. Writers never wait for the sealer. The sealer also signs the statements
that other processes request (`eventstore.proof.statement`), because only the sealer's process has the key.
"""

import threading
import time
from collections.abc import Sequence
from math import inf

import psycopg
import structlog

from eventstore.clock import now
from eventstore.errors import StoreUnavailable, first_line
from eventstore.log.authority import AuthorityKey
from eventstore.log.intake_stop import is_compared
from eventstore.log.ledger import Ledger
from eventstore.proof.checkpoints import CheckpointCopies, CopiesUnavailable, LogKey
from eventstore.proof.sealing import SealRefused, seal, sealing_lock
from eventstore.proof.statement import WaitingStatement, refuse_waiting, sign_waiting, waiting_statements
from telemetry.supervision import supervision

CHECK_EVERY_S = 0.25
"""Interval between two checks for statements to sign, and for a log that was not compared yet [seconds]."""

logger = structlog.get_logger()


class Sealer:
    """Follower that seals the log until `stop` is set. It survives the loss of Postgres and of the store of copies."""

    def __init__(
        self, ledger: Ledger, key: LogKey, copies: CheckpointCopies, authority: AuthorityKey, *, every_s: float
    ) -> None:
        self._ledger = ledger
        self._key = key
        self._authority = authority
        self._copies = copies
        self._every_s = every_s

    def start(self, stop: threading.Event) -> threading.Thread:
        return supervision.thread("sealer", lambda: self.run(stop), stop)

    def run(self, stop: threading.Event) -> None:
        """Seal at every interval, when statements wait, after a failure, and as soon as the database answers again."""
        due = time.monotonic()
        while not stop.wait(CHECK_EVERY_S):
            try:
                waiting, is_known = self._read_state()
            except StoreUnavailable as error:
                supervision.failed("sealer", error, is_waiting=True)
                due = time.monotonic()
                continue
            if waiting or time.monotonic() >= due or (not is_known and supervision.is_due("sealer")):
                due = time.monotonic() + min(self._every_s, self.seal(waiting))

    def seal(self, waiting: Sequence[WaitingStatement] = ()) -> float:
        """Seal once, unless another sealer is active, and sign the waiting statements.

        Return the pause before the next attempt [seconds]; infinity after a success.
        """
        try:
            with self._ledger.connection() as connection, sealing_lock(connection, waits=False) as is_held:
                if not is_held:
                    supervision.stopped_waiting("sealer")
                    return inf
                try:
                    sealed = seal(connection, self._key, self._copies, at=now())
                except SealRefused as refusal:
                    refuse_waiting(connection, waiting, str(refusal))
                    raise
                if sealed is None:
                    refuse_waiting(connection, waiting, "The log is empty: there is nothing to seal.")
                    supervision.works("sealer")
                    return inf
                if sealed.is_new:
                    logger.info("log sealed", size=sealed.checkpoint.size, root=sealed.checkpoint.root.hex()[:16])
                sign_waiting(connection, waiting, self._key, self._authority, sealed.note, at=now())
        except (StoreUnavailable, CopiesUnavailable) as error:
            logger.warning("sealing waits", reason=first_line(error))
            return supervision.failed("sealer", error, is_waiting=True, is_logged=True)
        except (SealRefused, psycopg.Error) as error:
            logger.error("log not sealed", reason=first_line(error))  # noqa: TRY400 - a sentence for operators
            return supervision.failed("sealer", error, is_logged=True)
        supervision.works("sealer")
        return inf

    def _read_state(self) -> tuple[list[WaitingStatement], bool]:
        """Return the waiting statements, and True if the log was compared since the database has started."""
        with self._ledger.connection() as connection:
            return waiting_statements(connection), is_compared(connection)
