"""Limits of the work for one body: CPU time, and memory."""

import math
import time

import msgspec

from schemas.reading.shape_errors import MAX_DEPTH
from schemas.sentence import Sentence

MAX_VALUES = 450_000
"""Most values of one body, counted by commas.

Together with MAX_CONTAINERS and MAX_DECIMALS, this limits the memory for a body.
"""
MAX_NAMES = 350_000
"""Most names of one object, since all threads wait while the decoder makes an object."""
MAX_CONTAINERS = 150_000
"""Most objects and arrays of one body, counted by their brackets."""
MAX_DECIMALS = 300_000
"""Most numbers with a fraction or exponent in one body."""

MAX_SCAN_S = 0.5
"""CPU time for finding repeated names [seconds]."""
MAX_WALK_S = 0.9
"""CPU time for finding shape errors, or the difference of two bodies [seconds]."""
MAX_RULES_S = 1.3
"""CPU time for the market's rules [seconds]. Reading a body and the three limits take less than 3 s together."""

_TOO_LONG = Sentence(
    "The body must be smaller: its check takes too long.",
    "Der Inhalt muss kleiner sein: Die Prüfung dauert zu lange.",
)


class TooMuchWork(Exception):
    """The content exceeds a limit of work, in CPU time or memory. `detail` is the sentence for the sender."""

    def __init__(self, detail: Sentence = _TOO_LONG) -> None:
        super().__init__(detail)
        self.detail = detail


class Work:
    """Limit of the CPU time of this thread, from the creation of the object on."""

    def __init__(self, limit_s: float) -> None:
        self._ends_at = time.thread_time() + limit_s

    def is_over(self) -> bool:
        return time.thread_time() > self._ends_at

    def check_time(self) -> None:
        """Raise TooMuchWork if the time is over."""
        if self.is_over():
            raise TooMuchWork


class Bounds(msgspec.Struct, frozen=True):
    """Limits for reading one body. If a body exceeds a limit, reading raises TooMuchWork."""

    values: float = MAX_VALUES
    names: float = MAX_NAMES
    containers: float = MAX_CONTAINERS
    decimals: float = MAX_DECIMALS
    walk_s: float = MAX_WALK_S
    depth: int = MAX_DEPTH


REQUEST_BOUNDS = Bounds()
"""Limits for a body of a request."""
COMPARISON_BOUNDS = Bounds(values=MAX_VALUES // 2, containers=MAX_CONTAINERS // 2, decimals=MAX_DECIMALS // 2)
"""Limits for each of two bodies that are compared in a request."""
STORED_BOUNDS = Bounds(
    values=math.inf, names=math.inf, containers=math.inf, decimals=math.inf, walk_s=math.inf, depth=2 * MAX_DEPTH
)
"""Limits for a body from the log: only the depth is limited, because the body was accepted before."""
