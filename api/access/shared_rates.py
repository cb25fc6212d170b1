"""The buckets of keys that have a rate, kept in Redis for all api processes.

The client is large: it is read with the first request of a key that has a rate, and few have one.
"""

import time
from typing import Any

import structlog

from system.alone import without

with without("opentelemetry"):
    import redis.asyncio
    from redis.exceptions import RedisError

TIMEOUT_S = 0.1
BREAK_S = 2.0
"""How long Redis is left alone after it has not answered."""

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


class SharedRates:
    """Buckets in this Redis."""

    def __init__(self, redis_url: str) -> None:
        self._redis: Any = redis.asyncio.from_url(redis_url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S)
        self._take: Any = self._redis.register_script(_TAKE)
        self._closed_until = 0.0

    async def level_us(self, key_id: str, interval_us: int) -> float | None:
        """How far the key's bucket is filled with this request; None while Redis does not answer."""
        if time.monotonic() < self._closed_until:
            return None
        try:
            return float(await self._take(keys=[f"importledger:rate:{key_id}"], args=[interval_us]))
        except (RedisError, OSError) as error:
            self._closed_until = time.monotonic() + BREAK_S
            logger.warning("rates are counted per process", reason=type(error).__name__)
            return None

    async def close(self) -> None:
        await self._redis.aclose()
