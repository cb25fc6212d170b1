"""Checks of the Redis URL in the settings."""

from system.hidden_imports import hiding

with hiding("opentelemetry"):
    import redis
    from redis.connection import parse_url

TIMEOUT_S = 5


def is_redis_url(url: str) -> bool:
    """Return True if the broker can parse this URL."""
    try:
        parse_url(url)  # type: ignore[no-untyped-call]
    except ValueError:
        return False
    return True


def why_no_redis(url: str) -> str | None:
    """Return a sentence with the Redis URL and the reason why it cannot be used; None if Redis answers."""
    client = redis.Redis.from_url(url, socket_connect_timeout=TIMEOUT_S, socket_timeout=TIMEOUT_S)
    try:
        client.ping()
    except (redis.RedisError, OSError) as error:
        parameters = client.connection_pool.connection_kwargs
        address = parameters.get("path") or f"{parameters.get('host', 'localhost')}:{parameters.get('port', 6379)}"
        lines = str(error).splitlines() or [type(error).__name__]
        return f"{address}: {lines[0].rstrip('.')}"
    finally:
        client.close()
    return None
