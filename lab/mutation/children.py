"""Child processes for one mutant each, a few at a time: how each ended, and the test that failed."""

import os
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

CRASHED = 3
"""Exit code of a child that could not run the tests. Of pytest's own codes, 1 and 2 mean a detected change."""


@dataclass(frozen=True)
class Ended:
    """Result of a mutant. `by` is the test that failed; "" if the mutant could not be imported, or ran out of time."""

    outcome: str
    by: str


class Children:
    """Runs at most `at_most` processes at a time. `ended` is called with each one's number and result when it ends."""

    def __init__(self, at_most: int, ended: Callable[[int, Ended], None]) -> None:
        self._at_most = at_most
        self._ended = ended
        self._running: dict[int, tuple[int, int]] = {}

    def start(self, number: int, run: Callable[[Callable[[str], None]], int]) -> None:
        """Fork a process that calls `run` and ends with its result.

        `run` gets a function to which it passes the name of the test that failed.
        """
        while len(self._running) >= self._at_most:
            self._wait()
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _run(run, writing)
        os.close(writing)
        self._running[pid] = number, reading

    def finish(self) -> None:
        while self._running:
            self._wait()

    def _wait(self) -> None:
        pid, status = os.wait()
        number, reading = self._running.pop(pid)
        with os.fdopen(reading, "rb") as pipe:
            by = pipe.read().decode()
        if os.WIFSIGNALED(status):
            in_time = os.WTERMSIG(status) not in (signal.SIGPROF, signal.SIGALRM, signal.SIGKILL)
            self._ended(number, Ended("killed" if in_time else "timeout", by))
            return
        code = os.WEXITSTATUS(status)
        self._ended(number, Ended({0: "survived", 1: "killed", 2: "killed"}.get(code, f"failed with {code}"), by))


def _run(run: Callable[[Callable[[str], None]], int], writing: int) -> NoReturn:
    code = CRASHED
    try:
        code = run(lambda name: _send_name(writing, name))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _send_name(writing: int, name: str) -> None:
    os.write(writing, name.encode())


def limit(seconds: float) -> None:
    """End this process after this much more CPU time, so that a mutant with an endless loop is detected."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
