"""A verb in a terminal, as people see it."""

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.importbook import COMMAND, environment


class Terminal:
    """A verb in a terminal of its own."""

    def __init__(
        self,
        *arguments: str,
        at: Path,
        access: Mapping[str, str],
        width: int = 100,
        more: Mapping[str, str] | None = None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._ours, theirs = pty.openpty()
        size = {"COLUMNS": str(width), "LINES": "30", "TERM": "xterm-256color"}
        inherited = {name: value for name, value in environment(access).items() if name != "NO_COLOR"}
        self.process = subprocess.Popen(
            [*command, *arguments],
            cwd=at,
            env=inherited | size | dict(more or {}),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = b""

    def read(self, timeout_s: float) -> bool:
        """Some more of what is shown; False at the end."""
        if select.select([self._ours], [], [], timeout_s)[0]:
            try:
                part = os.read(self._ours, 65_536)
            except OSError:  # the other end is closed
                return False
            self.shown += part
            return bool(part)
        return True

    def until(self, pattern: bytes, timeout_s: float = 60.0) -> None:
        """Read until this is shown; AssertionError where the verb has ended before."""
        deadline = time.monotonic() + timeout_s
        while re.search(pattern, self.shown) is None:
            assert self.read(0.1), self.shown.decode()
            assert time.monotonic() < deadline, self.shown.decode()

    def type(self, keys: bytes) -> None:
        """Press these keys."""
        os.write(self._ours, keys)

    def end(self, timeout_s: float = 60.0) -> int:
        """Its exit code, when everything it shows has been read."""
        deadline = time.monotonic() + timeout_s
        while self.read(0.1):
            assert time.monotonic() < deadline, self.shown.decode()
        os.close(self._ours)
        return self.process.wait(timeout_s)
