"""Limit the requests per second of a key: for all api processes through Redis, or per process without it.

The generic cell rate algorithm stores one number per key: the time at which its bucket will be full again. The requests
of a second may arrive at the same time. Answers carry the fields of the IETF draft `ratelimit-headers`.
"""

import asyncio
import math
import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec
import structlog

from api.access.directory import Key
from api.http.status_codes import ApiError
from schemas.sentence import Sentence
from system.hidden_imports import hiding

MAX_LOCAL_KEYS = 10_000
TIMEOUT_S = 0.1
BREAK_S = 2.0
"""Time for which each process counts rates separately after Redis did not answer [seconds]."""

logger = structlog.get_logger()

_TAKE = """
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local full_at = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now) + tonumber(ARGV[1])
if full_at - now <= 1000000 then
    redis.call('SET', KEYS[1], string.format('%.0f', full_at), 'PX', 2000)
    return full_at - now
end
return full_at - now
"""


class BucketState(msgspec.Struct, frozen=True):
    """Result of counting a request: whether the rate allows it, and how many more requests it allows now.

    `reset_s` is the time until the bucket is full again. For a refused request, it is the time until the rate allows
    the request [seconds].
    """

    fits: bool
    remaining: int
    reset_s: float

    @classmethod
    def at(cls, level_s: float, rate_per_s: int) -> "BucketState":
        """Return the result of a request after which the bucket needs `level_s` seconds to be full again.

        An empty bucket needs one second, so a request with a larger `level_s` is refused.
        """
        if level_s <= 1.0:
            return cls(True, int((1.0 - level_s) * rate_per_s + 1e-6), level_s)
        return cls(False, 0, level_s - 1.0)

    def headers(self, rate_per_s: int) -> Mapping[str, str]:
        wait_s = max(1, math.ceil(self.reset_s))
        fields = {"RateLimit-Policy": f'"key";q={rate_per_s};w=1', "RateLimit": f'"key";r={self.remaining};t={wait_s}'}
        return fields if self.fits else fields | {"Retry-After": str(wait_s)}


class RateLimit:
    """Buckets of all keys with a rate limit: in Redis for all api processes, or in this process."""

    def __init__(self, redis_url: str | None) -> None:
        self._redis_url = redis_url
        self._redis: Any = None
        self._asks_again_at = 0.0
        """Time of the next call to Redis, after it did not answer [seconds of the monotonic clock]."""
        self._full_at: dict[str, float] = {}

    async def take(self, key: Key) -> Mapping[str, str]:
        """Count a request and return the header fields of its answer. Raises ApiError 429."""
        if not key.rate_per_s:
            return {}
        state = BucketState.at(await self._level(key), key.rate_per_s)
        headers = state.headers(key.rate_per_s)
        if not state.fits:
            detail = Sentence(
                f"This key must make at most {key.rate_per_s} requests per second.",
                f"Dieser Schlüssel darf höchstens {key.rate_per_s} Anfragen je Sekunde stellen.",
            )
            raise ApiError(429, detail, headers=headers)
        return headers

    async def pace(self, key: Key, count: int) -> None:
        """Count requests, and wait until the rate allows them.

        With this, lines of a bulk body are delayed, not refused.
        """
        if not key.rate_per_s:
            return
        while count > 0:
            part = min(count, max(1, key.rate_per_s // 2))
            while (level := await self._level(key, part)) > 1.0:
                await asyncio.sleep(level - 1.0)
            count -= part

    async def close(self) -> None:
        if self._redis is not None:
            await self._redis.aclose()

    async def _level(self, key: Key, count: int = 1) -> float:
        if self._redis_url is not None and time.monotonic() >= self._asks_again_at:
            take, redis_error = self._script
            try:
                interval_us = count * 1_000_000 // key.rate_per_s
                return float(await take(keys=[f"importledger:rate:{key.key_id}"], args=[interval_us])) / 1e6
            except (redis_error, OSError) as error:
                self._asks_again_at = time.monotonic() + BREAK_S
                logger.warning("Redis does not answer: rates are counted per process", reason=type(error).__name__)
        return self._local_level(key, count)

    @cached_property
    def _script(self) -> tuple[Any, type[Exception]]:
        """The Lua script as a function, and the base class of Redis errors.

        Redis is imported at the first use, because few keys have a rate limit.
        """
        with hiding("opentelemetry"):
            import redis.asyncio

        options = {"socket_timeout": TIMEOUT_S, "socket_connect_timeout": TIMEOUT_S}
        self._redis = redis.asyncio.from_url(str(self._redis_url), **options)
        return self._redis.register_script(_TAKE), redis.exceptions.RedisError

    def _local_level(self, key: Key, count: int) -> float:
        now = time.monotonic()
        full_at = max(self._full_at.get(key.key_id, 0.0), now) + count / key.rate_per_s
        if full_at - now <= 1.0:
            if len(self._full_at) > MAX_LOCAL_KEYS:
                self._full_at.clear()
            self._full_at[key.key_id] = full_at
        return full_at - now
