"""Runs programs as children: starts them in order, restarts programs that die, and stops all in reverse order.

The system signals the children when the supervisor dies, so that `kill -9` leaves no process behind.
"""

import contextlib
import ctypes
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO

import msgspec
import structlog

from embedded.user import RunAs
from redaction.private_files import open_private
from redaction.text import cleaned, cleaned_line, escaped
from telemetry.log import form_of_log, is_for_people, line_as_json
from telemetry.supervision import supervision

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
FIRST_RESTART_S = 0.1
MAX_RESTART_S = 5.0
STEADY_AFTER_S = 10.0
POLL_S = 0.1
MAX_LINE_BYTES = 65_536
MAX_EARLY_DEATHS = 3
"""Early deaths in a row, each within STEADY_AFTER_S, after which `/readyz` names the role."""
OUTPUT_ENDS_S = 0.5
MAX_LAST_WORDS = 300
_PR_SET_PDEATHSIG = 1

logger = structlog.get_logger()


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program: command, user, stop signal, and the seconds after which it is killed (`stop_after_s`)."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    user: RunAs = RunAs()
    stop_signal: int = signal.SIGTERM
    stop_after_s: float = 15.0
    pass_fds: tuple[int, ...] = ()
    """File descriptors that the program inherits."""
    log: str | None = None
    """File of its output, with personal data removed; None for our own standard error, in the form of our log."""


class _Child:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.restart_at = 0.0
        self.delay_s = FIRST_RESTART_S
        self.started_at = 0.0
        self.early_deaths = 0
        """Early deaths in a row."""
        self.last_line = ""
        self.process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.program.command,
            env=dict(self.program.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
            pass_fds=self.program.pass_fds,
            preexec_fn=_die_with_parent(self.program.stop_signal),
            **self.program.user.popen_arguments(),
        )
        assert self.process.stdout is not None
        self._reader = supervision.thread(
            f"output of {self.program.name}", partial(self._copy_output, self.process.stdout)
        )
        self.started_at = time.monotonic()

    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def restart_if_dead(self) -> None:
        now = time.monotonic()
        if self.is_alive():
            if now - self.started_at > STEADY_AFTER_S:
                self.delay_s = FIRST_RESTART_S
                self.early_deaths = 0
            return
        if self.restart_at == 0.0:
            code = self.process.returncode if self.process else None
            self.early_deaths = self.early_deaths + 1 if now - self.started_at < STEADY_AFTER_S else 0
            self._await_output()
            details = {"name": self.program.name, "code": code, "last_line": self.last_line}
            logger.warning("program ended", **details, restart_in_s=self.delay_s)
            if self.early_deaths == MAX_EARLY_DEATHS:
                logger.error("role fails at every start", **details)
            self.restart_at = now + self.delay_s
        elif now >= self.restart_at:
            self.restart_at = 0.0
            self.delay_s = min(MAX_RESTART_S, self.delay_s * 2)
            self.start()

    def request_stop(self) -> None:
        if self.is_alive() and self.process:
            self.process.send_signal(self.program.stop_signal)

    def wait_until_stopped(self, requested_at: float) -> None:
        if self.process is None:
            return
        try:
            self.process.wait(max(0.0, requested_at + self.program.stop_after_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            logger.warning("program is killed", name=self.program.name)
            self.process.kill()
            self.process.wait()
        self._await_output()

    def _await_output(self) -> None:
        """Wait for the output of a dead program to end, but not for children that keep its pipe open."""
        if self._reader is not None:
            self._reader.join(OUTPUT_ENDS_S)

    def _copy_output(self, output: IO[bytes]) -> None:
        """Read the output of a child until it ends, since a full pipe would stop the child."""
        program = self.program
        with contextlib.ExitStack() as stack:
            file: IO[bytes] | None = None
            while output_line := output.readline(MAX_LINE_BYTES):
                line = output_line.decode("utf-8", "replace").rstrip("\n")
                if line.strip():
                    self.last_line = line
                with contextlib.suppress(OSError, ValueError):
                    if program.log:
                        file = file or stack.enter_context(open_private(Path(program.log), "ab"))
                        file.write(cleaned_line(line).encode() + b"\n")
                        file.flush()
                    elif line.strip():
                        sys.stderr.write(_line_of(program.name, line) + "\n")
                        sys.stderr.flush()
        output.close()


def _line_of(role: str, line: str) -> str:
    """Return the line of a role in the form of this process's log, with colours on a terminal only."""
    if not is_for_people(form_of_log()):
        return line_as_json(line, role=role)
    return line if sys.stderr.isatty() else cleaned_line(_COLOURS.sub("", line))


class Supervisor:
    """Supervisor of programs.

    Use it only from the main thread, because the children get the death signal when the thread that started them ends.
    """

    def __init__(self, report_failing: Callable[[dict[str, str]], None] = lambda failing: None) -> None:
        self._tiers: list[list[_Child]] = []
        self._report_failing = report_failing
        self._failing: dict[str, str] = {}

    def start(self, *programs: Program) -> None:
        """Start programs as one tier. Tiers stop in reverse order, the programs of a tier together."""
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
        """Restart programs that die, until `stop` is set or `until` returns True."""
        while not stop.wait(POLL_S) and not until():
            for tier in self._tiers:
                for child in tier:
                    with supervision.part(f"start of {child.program.name}", passes=lambda _: False):
                        child.restart_if_dead()
            failing = self._failing_roles()
            if failing != self._failing:
                self._failing = failing
                self._report_failing(failing)

    def _failing_roles(self) -> dict[str, str]:
        """Return the programs with MAX_EARLY_DEATHS early deaths in a row, by name, with the last line of each."""
        return {
            child.program.name: last_words(child.last_line)
            for tier in self._tiers
            for child in tier
            if child.early_deaths >= MAX_EARLY_DEATHS
        }

    def stop(self) -> None:
        """Signal, wait and kill, tier by tier, the last started first."""
        for tier in reversed(self._tiers):
            requested_at = time.monotonic()
            for child in tier:
                child.request_stop()
            for child in tier:
                child.wait_until_stopped(requested_at)
        self._tiers.clear()


def last_words(line: str) -> str:
    """Return the last line of a role as a short sentence; of a JSON line, event and error."""
    with contextlib.suppress(ValueError, AttributeError):
        entry = json.loads(line)
        parts = (entry.get("event"), str(entry.get("exception") or "").rpartition("\n")[2])
        line = ": ".join(str(part) for part in parts if part)
    sentence = escaped(cleaned(line))
    return sentence if len(sentence) <= MAX_LAST_WORDS else sentence[:MAX_LAST_WORDS] + "…"


def _die_with_parent(signal_number: int) -> Callable[[], None] | None:
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)

    def request_signal() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal_number)

    return request_signal
