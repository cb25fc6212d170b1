"""Run importbook as the child of an api process: it ends with the process, and its memory and files are limited.

The api starts it as `python -I -m console.books.child WORD…`. With `-I`, Python imports nothing from the folder of
the book, whose files users have named.
"""

import ctypes
import os
import resource
import runpy
import signal
import sys
from contextlib import suppress
from pathlib import Path

from telemetry.log import begin_process

MAX_WRITTEN_BYTES = 2_000_000_000
"""Size of a file that a step may write. At this size the write fails."""
MAX_MEMORY_BYTES = 2_000 << 20
"""Writable memory of the process. It stays below the limits in deploy/, beyond which the kernel also ends the api."""
NICENESS = 15
"""CPU niceness, so that requests have priority."""
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Set the limits of this process, and run importbook with its arguments."""
    begin_process("warning")
    os.nice(NICENESS)
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_WRITTEN_BYTES, MAX_WRITTEN_BYTES))
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    runpy.run_module("importledger_client", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
