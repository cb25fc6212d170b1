"""Limits of concurrent long requests: a limit for the process, and a lower limit for each organisation."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Protocol

from api.http.status_codes import ApiError
from schemas.sentence import Sentence


class Requester(Protocol):
    """Caller or user who makes a long request."""

    @property
    def organisation(self) -> str: ...

    async def confirm(self) -> None:
        """Raise ApiError if the caller or user has lost the rights with which the request was admitted.

        Long requests must call `confirm` before each piece that they write or send.
        """


class ConcurrencyLimit:
    """Counts concurrent requests: at most `total` together, of which `per_organisation` of one organisation."""

    def __init__(self, total: int, per_organisation: int, full: Sentence, *, retry_after_s: int = 1) -> None:
        self._total = total
        self._per_organisation = per_organisation
        self._full = full
        self._retry_after_s = retry_after_s
        self._running: Counter[str] = Counter()

    def refuse_full(self, organisation: str) -> None:
        """Raise ApiError 503 if the limit of all requests, or of the organisation's requests, is reached."""
        if self._running.total() >= self._total or self._running[organisation] >= self._per_organisation:
            raise ApiError(503, self._full, headers={"Retry-After": str(self._retry_after_s)})

    @contextlib.contextmanager
    def slot(self, organisation: str) -> Iterator[None]:
        """Count a request until the end of the block. Raises ApiError 503 if a limit is reached."""
        self.refuse_full(organisation)
        self._running[organisation] += 1
        try:
            yield
        finally:
            self._running[organisation] -= 1
            self._running += Counter()  # remove organisations without requests
