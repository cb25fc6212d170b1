"""A program on a machine, which the run starts, stops and kills. A program that ends otherwise has failed."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.failover.network import Machine

STOP_S = 30.0


class Program:
    """One program with its log file. A second `start` stands for the boot of its machine."""

    def __init__(
        self,
        machine: Machine,
        name: str,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.machine = machine
        self.name = name
        self.command = list(command)
        self.environment = dict(environment or {})
        self.log = folder / f"{machine.name}-{name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.machine.inside(), self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                env=os.environ | self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )

    def stop(self) -> int:
        """Send SIGTERM, and SIGKILL after STOP_S. Return the exit code."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    @property
    def has_ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    @property
    def last_line(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return next((line for line in reversed(lines) if line.strip()), "it said nothing")
