"""The sealer: every so often, seal what has been appended and keep the checkpoint outside of the database.

One sealer is active, by an advisory lock. It follows behind the writers, who never wait for it.
"""

import threading

import structlog

from eventstore.clock import now
from eventstore.errors import StoreUnavailable
from eventstore.log.ledger import Ledger
from eventstore.proof.checkpoints import LogKey, Outside, OutsideUnavailable
from eventstore.proof.sealing import SealRefused, seal, sealing_lock

logger = structlog.get_logger()


class Sealer:
    """Runs until `stop` is set; survives the loss of Postgres and of the place outside."""

    def __init__(self, ledger: Ledger, key: LogKey, outside: Outside, *, every_s: float) -> None:
        self._ledger = ledger
        self._key = key
        self._outside = outside
        self._every_s = every_s

    def start(self, stop: threading.Event) -> threading.Thread:
        thread = threading.Thread(target=self.run, args=(stop,), name="sealer", daemon=True)
        thread.start()
        return thread

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(self._every_s):
            self.seal()

    def seal(self) -> None:
        """Once, unless another sealer is at it."""
        try:
            with self._ledger.connection() as connection, sealing_lock(connection, waits=False) as is_held:
                if is_held and (sealed := seal(connection, self._key, self._outside, at=now())) and sealed.is_new:
                    logger.info("log sealed", size=sealed.checkpoint.size, root=sealed.checkpoint.root.hex()[:16])
        except SealRefused as refusal:
            logger.error("log not sealed", reason=str(refusal))  # noqa: TRY400 - a sentence for operators
        except (StoreUnavailable, OutsideUnavailable) as error:
            logger.warning("sealing waits", reason=str(error).strip().splitlines()[0] if str(error) else "")
