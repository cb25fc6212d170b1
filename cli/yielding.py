"""Relay and workers yield to intake: where there is not processor time enough, accounts are taken in first."""

import contextlib
import os
from pathlib import Path

YIELDING = frozenset({"relay", "worker"})
"""The verbs that yield, from their first moment on: what they read at their start takes as long as the api's."""
NICENESS = 10
"""They get a tenth of the processor time that an api process gets where all want more than there is."""
AUTOGROUP = Path("/proc/self/autogroup")
"""Linux shares time out among sessions first, by a niceness of their own; `up` gives each process a session."""


def yield_to_intake() -> None:
    """Call it once, in a process of its own."""
    with contextlib.suppress(AttributeError, OSError):  # not every system has these
        niceness = os.nice(NICENESS)
        if os.getsid(0) == os.getpid():
            AUTOGROUP.write_text(str(niceness))
