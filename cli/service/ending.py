"""The end of a process of ours, without taking the interpreter down under threads that still run.

Threads that are not ours, such as those of the object stores' library, abort the whole process when they ask for an
interpreter that is being taken down. All that has to be done at the end has been done by then.
"""

import atexit
import contextlib
import os
import sys


class Ending:
    """Ends the process with this code when everything else has ended. Make it before anything else."""

    def __init__(self) -> None:
        self.code = 1
        atexit.register(self._end)  # what is registered first is called last, and after all threads that are waited for

    def _end(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # whoever reads it has gone, or it is closed
                stream.flush()
        os._exit(self.code)
