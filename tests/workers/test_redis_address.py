"""Check of the address of Redis."""

from pathlib import Path

import pytest

from tests.support.running import free_port
from workers.redis_address import is_redis_url, why_no_redis


@pytest.mark.parametrize("url", ["redis://host", "rediss://:secret@host:1/2", "unix:///run/redis.sock"])
def test_an_address_of_redis_is_accepted(url: str) -> None:
    assert is_redis_url(url)


@pytest.mark.parametrize("url", ["http://host", "host:6379", "redis://host:port/0"])
def test_another_address_is_refused(url: str) -> None:
    assert not is_redis_url(url)


def test_the_reason_names_the_place_and_no_password(folder: Path) -> None:
    port = free_port()
    reason = why_no_redis(f"redis://:secret@127.0.0.1:{port}/0")
    assert reason is not None
    assert reason.startswith(f"127.0.0.1:{port}: ")
    assert "secret" not in reason
    assert (why_no_redis(f"unix://{folder}/no.sock") or "").startswith(f"{folder}/no.sock: ")
