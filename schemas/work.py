"""How much work one body may make: processor time that is looked at now and then, and that ends in an exception."""

import time

from schemas.sentence import Sentence

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
        """Raises TooMuchWork."""
        if self.is_over():
            raise TooMuchWork
