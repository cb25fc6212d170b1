"""Supervise work that lasts as long as its process: threads, tasks, and parts of them.

Work that fails unexpectedly starts again after a pause. Failing work is reported as a trouble, with its last error,
until it succeeds again. A test finds threads that are started without this module.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import msgspec
import structlog

from redaction.text import message_of

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 5.0
LOGGED_EVERY_S = 60.0
"""Time between two lines about work that fails with the same error [seconds]."""
FORGOTTEN_AFTER_S = 120.0
"""Time without another failure after which work that reports no success counts as working [seconds]."""

logger = structlog.get_logger()


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Work that has failed and has not succeeded since. `name` is the name of the work, `error` the last error."""

    name: str
    error: str
    times: int
    """Failures in a row."""
    is_waiting: bool
    """True if the work only waits for an unavailable server."""


class _Failing(msgspec.Struct):
    trouble: Trouble
    failed_at: float
    due_at: float
    logged_at: float


class Supervision:
    """Runs work of this process again after failures, and records the failures. Thread-safe."""

    def __init__(self) -> None:
        self._failing: dict[str, _Failing] = {}
        self._lock = threading.Lock()
        self.changed = threading.Event()
        """Event that is set when a trouble begins or ends."""

    def thread(self, name: str, work: Callable[[], None], stop: threading.Event | None = None) -> threading.Thread:
        """Start a thread that does the work until it returns, or fails after `stop` is set."""
        thread = threading.Thread(target=self.run, args=(name, work, stop), name=name, daemon=True)
        thread.start()
        return thread

    def run(self, name: str, work: Callable[[], None], stop: threading.Event | None = None) -> None:
        """Do the work in this thread until it returns, or fails after `stop` is set."""
        stop = stop or threading.Event()
        while True:
            try:
                work()
            except Exception as error:  # any unexpected error: the work starts again
                if stop.wait(self.failed(name, error)):
                    return
            else:
                if not stop.is_set():
                    self.works(name)
                return

    def task(self, name: str, work: Callable[[], Awaitable[None]]) -> "asyncio.Task[None]":
        """Start a task of the running loop that does the work until it returns, or is cancelled."""

        async def run_until_done() -> None:
            while True:
                try:
                    await work()
                except Exception as error:  # any unexpected error: the work starts again
                    await asyncio.sleep(self.failed(name, error))
                else:
                    self.works(name)
                    return

        return asyncio.create_task(run_until_done(), name=name)

    @contextmanager
    def part(self, name: str, *, passes: Callable[[Exception], bool]) -> Iterator[None]:
        """Catch and report an error of the block, so that other parts of the work continue.

        Errors for which `passes` returns True are raised, because they concern all of the work.
        """
        try:
            yield
        except Exception as error:
            if passes(error):
                raise
            self.failed(name, error)
        else:
            self.works(name)

    def failed(self, name: str, error: Exception, *, is_waiting: bool = False, is_logged: bool = False) -> float:
        """Record a failure, and log it unless it was logged a moment ago.

        Return the seconds before the next try. `is_waiting`: the work only waits for an unavailable server.
        `is_logged`: the caller has logged the failure.
        """
        now, text = time.monotonic(), message_of(error)
        if is_waiting:  # the class of the error adds no information
            text = text.removeprefix(f"{type(error).__name__}: ")
        with self._lock:
            before = self._current(name)
            times = before.trouble.times + 1 if before else 1
            trouble = Trouble(name=name, error=text, times=times, is_waiting=is_waiting)
            pause_s = min(FIRST_PAUSE_S * 2.0 ** min(times - 1, 10), LONGEST_PAUSE_S)
            is_new = before is None or before.trouble.error != text
            is_due = not is_logged and (is_new or before is None or now - before.logged_at >= LOGGED_EVERY_S)
            logged_at = now if is_due or before is None else before.logged_at
            self._failing[name] = _Failing(trouble, now, now + pause_s, logged_at)
        if is_new:
            self.changed.set()
        if is_due and is_waiting:
            logger.warning(f"{name} waits for a server", reason=text, times=times)
        elif is_due:
            logger.error("work failed", work=name, reason=text, times=times, exc_info=error if is_new else None)
        return pause_s

    def works(self, name: str) -> None:
        """Record that the work succeeds. This is cheap while nothing fails."""
        if name in self._failing:
            with self._lock:
                failing = self._failing.pop(name, None)
            if failing is not None:
                self.changed.set()
                logger.info("work succeeds again", work=name, times=failing.trouble.times)

    def stopped_waiting(self, name: str) -> None:
        """Record that the server for which the work has waited answers again."""
        failing = self._failing.get(name)
        if failing is not None and failing.trouble.is_waiting:
            self.works(name)

    def is_due(self, name: str) -> bool:
        """Return True if the pause after the last failure is over."""
        failing = self._failing.get(name)
        return failing is None or time.monotonic() >= failing.due_at

    def troubles(self) -> list[Trouble]:
        """Return the present troubles, sorted by name."""
        with self._lock:
            return [failing.trouble for name in sorted(self._failing) if (failing := self._current(name)) is not None]

    def _current(self, name: str) -> _Failing | None:
        failing = self._failing.get(name)
        if failing is not None and time.monotonic() - failing.failed_at > FORGOTTEN_AFTER_S:
            return None
        return failing


supervision = Supervision()
"""Supervision of all work in this process."""
