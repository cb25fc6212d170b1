"""Runs programs as children: starts them in order, restarts what dies, stops all in reverse order.

Children are told by the system when the supervisor dies, so that nothing is left behind by a `kill -9`.
"""

import contextlib
import ctypes
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

import msgspec
import structlog

from embedded.user import RunAs
from eventstore.private_files import open_private
from eventstore.shown import cleaned_line

FIRST_RESTART_S = 0.1
MAX_RESTART_S = 5.0
STEADY_AFTER_S = 10.0
POLL_S = 0.1
MAX_LINE_BYTES = 16_384
_PR_SET_PDEATHSIG = 1

logger = structlog.get_logger()


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """What to run, as whom, and how it is asked to stop; `stop_after_s` is when it is killed instead."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    user: RunAs = RunAs()
    stop_signal: int = signal.SIGTERM
    stop_after_s: float = 15.0
    log: str | None = None
    """A file for its output, which is cleaned on the way; None: ours, for our own roles, which clean it themselves."""


class _Child:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.restart_at = 0.0
        self.delay_s = FIRST_RESTART_S
        self.started_at = 0.0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.program.command,
            env=dict(self.program.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if self.program.log else sys.stderr,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
            preexec_fn=_die_with_parent(self.program.stop_signal),
            **self.program.user.popen_arguments(),
        )
        if self.program.log:
            arguments = (self.process.stdout, Path(self.program.log))
            threading.Thread(target=_keep_output, args=arguments, name=self.program.name, daemon=True).start()
        self.started_at = time.monotonic()

    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def restart_if_dead(self) -> None:
        now = time.monotonic()
        if self.is_alive():
            if now - self.started_at > STEADY_AFTER_S:
                self.delay_s = FIRST_RESTART_S
            return
        if self.restart_at == 0.0:
            code = self.process.returncode if self.process else None
            logger.warning("program ended", name=self.program.name, code=code, restart_in_s=self.delay_s)
            self.restart_at = now + self.delay_s
        elif now >= self.restart_at:
            self.restart_at = 0.0
            self.delay_s = min(MAX_RESTART_S, self.delay_s * 2)
            self.start()

    def ask_to_stop(self) -> None:
        if self.is_alive() and self.process:
            self.process.send_signal(self.program.stop_signal)

    def wait_until_stopped(self) -> None:
        if self.process is None:
            return
        try:
            self.process.wait(self.program.stop_after_s)
        except subprocess.TimeoutExpired:
            logger.warning("program is killed", name=self.program.name)
            self.process.kill()
            self.process.wait()


class Supervisor:
    """Start and supervise from one thread only, the main one: the death signal follows the starting thread."""

    def __init__(self) -> None:
        self._tiers: list[list[_Child]] = []

    def start(self, *programs: Program) -> None:
        """Start programs as one tier: tiers stop in reverse order, a tier's programs together."""
        tier = [_Child(program) for program in programs]
        self._tiers.append(tier)
        for child in tier:
            child.start()

    def pids(self) -> dict[str, int]:
        return {
            child.program.name: child.process.pid for tier in self._tiers for child in tier if child.process is not None
        }

    def is_alive(self, name: str) -> bool:
        return any(child.program.name == name and child.is_alive() for tier in self._tiers for child in tier)

    def watch(self, stop: threading.Event, until: Callable[[], bool] = lambda: False) -> None:
        """Restart what dies until `stop` is set, or `until` says so."""
        while not stop.wait(POLL_S) and not until():
            for tier in self._tiers:
                for child in tier:
                    child.restart_if_dead()

    def stop(self) -> None:
        """Ask, wait, kill; tier by tier, the last started first."""
        for tier in reversed(self._tiers):
            for child in tier:
                child.ask_to_stop()
            for child in tier:
                child.wait_until_stopped()
        self._tiers.clear()


def _keep_output(output: IO[bytes], log: Path) -> None:
    """Take a child's output until it ends: a pipe that nobody reads stops the child. What cannot be kept is lost."""
    with output, contextlib.ExitStack() as stack:
        file: IO[bytes] | None = None
        while line := output.readline(MAX_LINE_BYTES):
            with contextlib.suppress(OSError):
                file = file or stack.enter_context(open_private(log, "ab"))
                file.write(cleaned_line(line.decode("utf-8", "replace").rstrip("\n")).encode() + b"\n")
                file.flush()


def _die_with_parent(signal_number: int) -> Callable[[], None] | None:
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)

    def ask() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal_number)

    return ask
