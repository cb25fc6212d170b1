"""How many requests a second a key may make: shared by all api processes through Redis, per process without it.

The generic cell rate algorithm: one number per key, the time at which its bucket would be full again. A second's
worth of requests may come at once. Answers carry the fields of the IETF draft `ratelimit-headers`.
"""

import asyncio
import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from api.access.directory import Key
from api.http.status_codes import ApiError
from schemas.sentence import Sentence

if TYPE_CHECKING:
    from api.access.shared_rates import SharedRates

MAX_LOCAL_KEYS = 10_000


class Taken(msgspec.Struct, frozen=True):
    """One request of a key: whether it fits, how many more would, and when the bucket is full again, in seconds."""

    fits: bool
    remaining: int
    reset_s: float

    @classmethod
    def at(cls, level_s: float, rate_per_s: int) -> "Taken":
        """`level_s`: how far the bucket is filled, in seconds of its rate, this request included; 1 is full."""
        if level_s <= 1.0:
            return cls(True, int((1.0 - level_s) * rate_per_s + 1e-6), level_s)
        return cls(False, 0, level_s - 1.0)

    def headers(self, rate_per_s: int) -> Mapping[str, str]:
        wait_s = max(1, math.ceil(self.reset_s))
        fields = {"RateLimit-Policy": f'"key";q={rate_per_s};w=1', "RateLimit": f'"key";r={self.remaining};t={wait_s}'}
        return fields if self.fits else fields | {"Retry-After": str(wait_s)}


class RateLimit:
    """The buckets of all keys that have a rate."""

    def __init__(self, redis_url: str | None) -> None:
        self._redis_url = redis_url
        self._shared: SharedRates | None = None
        self._full_at: dict[str, float] = {}

    async def take(self, key: Key) -> Mapping[str, str]:
        """Count a request; the header fields of its answer. Raises ApiError 429."""
        if not key.rate_per_s:
            return {}
        taken = Taken.at(await self._level(key), key.rate_per_s)
        headers = taken.headers(key.rate_per_s)
        if not taken.fits:
            detail = Sentence(
                f"This key makes more than {key.rate_per_s} requests a second.",
                f"Dieser Schlüssel stellt mehr als {key.rate_per_s} Anfragen je Sekunde.",
            )
            raise ApiError(429, detail, headers=headers)
        return headers

    async def pace(self, key: Key, count: int) -> None:
        """Count so many requests, and wait until they fit: lines of a bulk body are slowed down, not refused."""
        if not key.rate_per_s:
            return
        while count > 0:
            part = min(count, max(1, key.rate_per_s // 2))
            while (level := await self._level(key, part)) > 1.0:
                await asyncio.sleep(level - 1.0)
            count -= part

    async def close(self) -> None:
        if self._shared is not None:
            await self._shared.close()

    async def _level(self, key: Key, count: int = 1) -> float:
        if self._redis_url is not None:
            shared = self._opened(self._redis_url)
            level_us = await shared.level_us(key.key_id, count * 1_000_000 // key.rate_per_s)
            if level_us is not None:
                return level_us / 1e6
        return self._local_level(key, count)

    def _opened(self, redis_url: str) -> "SharedRates":
        from api.access.shared_rates import SharedRates  # the client of Redis is large, and few keys have a rate

        self._shared = self._shared or SharedRates(redis_url)
        return self._shared

    def _local_level(self, key: Key, count: int) -> float:
        now = time.monotonic()
        full_at = max(self._full_at.get(key.key_id, 0.0), now) + count / key.rate_per_s
        if full_at - now <= 1.0:
            if len(self._full_at) > MAX_LOCAL_KEYS:
                self._full_at.clear()
            self._full_at[key.key_id] = full_at
        return full_at - now
