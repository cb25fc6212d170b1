"""Places for requests that last: so many in a process, and of one organisation so many that others find some."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Protocol

from api.http.status_codes import ApiError
from schemas.sentence import Sentence


class Occupant(Protocol):
    """Caller or user who holds a place, while they have the power to."""

    @property
    def organisation(self) -> str: ...

    async def confirm(self) -> None:
        """Raises ApiError when the occupant no longer has the power with which the request was admitted.

        Requests that last call it before each thing that they write or send.
        """


class Shares:
    """Who holds how many places."""

    def __init__(self, most: int, of_one: int, full: Sentence, *, retry_after_s: int = 1) -> None:
        self._most = most
        self._of_one = of_one
        self._full = full
        self._retry_after_s = retry_after_s
        self._held: Counter[str] = Counter()

    def refuse_full(self, organisation: str) -> None:
        """Raises ApiError 503 when all places are taken, or all that this organisation may have."""
        if self._held.total() >= self._most or self._held[organisation] >= self._of_one:
            raise ApiError(503, self._full, headers={"Retry-After": str(self._retry_after_s)})

    @contextlib.contextmanager
    def place(self, organisation: str) -> Iterator[None]:
        """A place until the end of the block. Raises ApiError 503."""
        self.refuse_full(organisation)
        self._held[organisation] += 1
        try:
            yield
        finally:
            self._held[organisation] -= 1
            self._held += Counter()  # leaves out who holds none
