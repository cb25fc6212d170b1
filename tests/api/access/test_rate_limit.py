"""A key with a rate is throttled: over all api processes through Redis, or in each process without Redis."""

import asyncio
import contextlib
import json
import time
from typing import Any

import pytest

from api.access import rate_limit
from api.access.directory import Key
from api.access.rate_limit import BucketState, RateLimit
from api.http.status_codes import ApiError
from tests.support.running import RunningService, free_port, wait_for

RATE = 10


def a_key(name: str = "k", rate: int = RATE) -> Key:
    return Key(name, "O", "importer", frozenset("*"), "d", None, rate)


def taken(limits: list[RateLimit], key: Key, requests: int) -> int:
    """Return how many of these requests fit, made one after the other, on each of the processes in turn."""

    async def take() -> int:
        fits = 0
        for number in range(requests):
            with contextlib.suppress(ApiError):
                await limits[number % len(limits)].take(key)
                fits += 1
        for limit in limits:
            await limit.close()
        return fits

    return asyncio.run(take())


@pytest.mark.asvs("V2.4.1")
def test_processes_share_a_rate_through_redis(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "TIMEOUT_S", 60.0)  # a busy Redis is not away
    began = time.monotonic()
    fits = taken([RateLimit(redis_url), RateLimit(redis_url)], a_key(), 6 * RATE)
    seconds = time.monotonic() - began
    assert RATE <= fits <= RATE * (1 + seconds) + 1


@pytest.mark.asvs("V16.5.2")
def test_each_process_counts_alone_while_redis_is_away() -> None:
    limits = [RateLimit(f"redis://127.0.0.1:{free_port()}"), RateLimit(None)]
    began = time.monotonic()
    fits = taken(limits, a_key(), 8 * RATE)
    seconds = time.monotonic() - began
    assert 2 * RATE <= fits <= 2 * (RATE * (1 + seconds) + 1)


def test_a_key_without_a_rate_is_not_counted() -> None:
    assert asyncio.run(RateLimit(None).take(a_key(rate=0))) == {}


@pytest.mark.parametrize(
    ("level", "fields"),
    [
        (0.1, {"RateLimit": '"key";r=9;t=1', "RateLimit-Policy": '"key";q=10;w=1'}),
        (1.0, {"RateLimit": '"key";r=0;t=1', "RateLimit-Policy": '"key";q=10;w=1'}),
        (1.1, {"RateLimit": '"key";r=0;t=1', "RateLimit-Policy": '"key";q=10;w=1', "Retry-After": "1"}),
    ],
)
def test_the_fields_say_what_is_left(level: float, fields: dict[str, str]) -> None:
    assert BucketState.at(level, RATE).headers(RATE) == fields


def test_a_throttled_request_says_when_to_come_again(service: RunningService) -> None:
    supplier = service.importer().supplier
    made = service.cli("key", "create", "Slow", "--supplier", supplier, "--rate", "2/s", "--json")
    throttled = {"Authorization": f"Token {json.loads(made.stdout)['api_key']}"}
    answers: list[tuple[Any, Any]] = []

    def refused() -> list[tuple[Any, Any]]:
        return [(answer, headers) for answer, headers in answers if answer.status == 429]

    def are_refused() -> bool:
        path = "/v1/data-import/all-account-import-processes/X/"
        answers.extend(service.request("GET", path, None, throttled) for _ in range(12))
        return len(refused()) >= 6

    wait_for(are_refused, "requests are refused")
    for answer, headers in refused():
        assert answer.body["code"] == "throttled"
        assert int(headers["retry-after"]) >= 1
        assert headers["ratelimit-policy"] == '"key";q=2;w=1'
    assert answers[0][0].status == 200
    assert answers[0][1]["ratelimit"].startswith('"key";r=')
