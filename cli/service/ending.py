"""End of a process, without a shutdown of the interpreter while threads still run.

Threads of libraries, such as threads of the object stores, abort the process if they use an interpreter that is
shutting down.
"""

import atexit
import contextlib
import os
import sys


class Ending:
    """Exit handler that ends the process with `code`, after all other exit handlers.

    Create it before all other exit handlers.
    """

    def __init__(self) -> None:
        self.code = 1
        atexit.register(self._end)  # registered first, so that it is called last, after all threads were joined

    def _end(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # the reader has closed the pipe, or the stream is closed
                stream.flush()
        os._exit(self.code)
