"""Findings of `importledger doctor` for a page.

Because the checks wait for other servers, pages show findings of earlier checks.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import structlog

from eventstore.clock import now

logger = structlog.get_logger()

CHECKED_EVERY_S = 10.0
"""Age of findings [seconds] after which the next visit starts the checks again."""


class Checkup:
    """Findings of `doctor`, the worst first. Only the first visit waits for the checks."""

    def __init__(self, examine: Callable[[], Sequence[Any]]) -> None:
        self._examine = examine
        self.findings: list[Any] = []
        self.at: datetime | None = None
        self._running: asyncio.Task[None] | None = None

    async def refresh(self) -> None:
        """Run the checks again if the findings are old. Raises the errors of the first checks."""
        self.start()
        if self.at is None and self._running is not None:
            await asyncio.shield(self._running)

    def start(self) -> None:
        """Start the checks if the findings are old, without waiting for them."""
        is_due = self.at is None or (now() - self.at).total_seconds() > CHECKED_EVERY_S
        if is_due and (self._running is None or self._running.done()):
            self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            self.findings = [*reversed(await asyncio.to_thread(self._examine))]
            self.at = now()
        except Exception:
            if self.at is None:
                raise
            logger.exception("checks of the system page failed")  # the page shows the last findings with their time
