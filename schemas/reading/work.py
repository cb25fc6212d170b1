"""How much one body may cost: processor time that is looked at now and then, and what it may take in memory."""

import math
import time

import msgspec

from schemas.reading.misfits import MAX_DEPTH
from schemas.sentence import Sentence

MAX_VALUES = 450_000
"""Values of one body, counted by their commas; with the two limits below, what it may take in memory.

An account of 10 MiB that consists of readings has 390,000.
"""
MAX_CONTAINERS = 150_000
"""Objects and arrays of one body, counted by their brackets."""
MAX_DECIMALS = 300_000
"""Numbers with a fraction or exponent in one body."""

MAX_SCAN_S = 0.5
"""Processor seconds for looking through a body's tokens."""
MAX_WALK_S = 0.9
"""For finding what does not fit its shape, or where two bodies differ."""
MAX_RULES_S = 1.3
"""For asking the market's rules. With reading it and the others, a body stays below three seconds."""

_TOO_LONG = Sentence(
    "This takes too long to judge: send less at a time.",
    "Die Prüfung dauert zu lange: Bitte weniger auf einmal senden.",
)


class TooMuchWork(Exception):
    """The content takes more to judge than one request may cost; `detail` says so to its sender."""

    def __init__(self, detail: Sentence = _TOO_LONG) -> None:
        super().__init__(detail)
        self.detail = detail


class Work:
    """The processor time that this thread has spent since now."""

    def __init__(self, limit_s: float) -> None:
        self._ends_at = time.thread_time() + limit_s

    def is_over(self) -> bool:
        return time.thread_time() > self._ends_at

    def go_on(self) -> None:
        """Look at the clock. Raises TooMuchWork when the time is spent."""
        if self.is_over():
            raise TooMuchWork


class Bounds(msgspec.Struct, frozen=True):
    """What reading one body may cost before it ends in TooMuchWork."""

    values: float = MAX_VALUES
    containers: float = MAX_CONTAINERS
    decimals: float = MAX_DECIMALS
    walk_s: float = MAX_WALK_S
    depth: int = MAX_DEPTH


ASKED = Bounds()
"""For a body that is part of a request: nobody is to wait for it."""
COMPARED = Bounds(values=MAX_VALUES // 2, containers=MAX_CONTAINERS // 2, decimals=MAX_DECIMALS // 2)
"""For each of two bodies that are compared in a request."""
STORED = Bounds(values=math.inf, containers=math.inf, decimals=math.inf, walk_s=math.inf, depth=2 * MAX_DEPTH)
"""For a body that is in the log: it was accepted, if by another version, and is read whatever it costs.

Versions before this took bodies with some levels more than may be sent today.
"""
