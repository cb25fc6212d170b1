"""The measurement reports a service that delays other callers, and not a busy machine."""

import asyncio
import time

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.hostile.catalogue import head
from tests.hostile.measure import MAX_WAIT_S, Harm, Processes, harm_of_all, least_harm
from tests.support.serving import serving

HELD_S, NOISE_S = 4 * MAX_WAIT_S, 1.5 * MAX_WAIT_S


def seen(path: str, *, noise_s: float = 0.0) -> Harm:
    """Measure a request for this path. Each answer is delayed by the noise, and /hold/ blocks the server's loop."""

    async def answer(request: Request) -> Response:
        if request.url.path == "/hold/":
            time.sleep(HELD_S)
        await asyncio.sleep(noise_s)
        return Response(b"{}")

    with serving(Starlette(routes=[Route("/{path:path}", answer)])) as port:
        url, sent = f"http://127.0.0.1:{port}", [[head("GET", path)]]
        return least_harm(url, lambda: harm_of_all(url, Processes([]), sent, "t"), "t", bearable_s=MAX_WAIT_S)


@pytest.mark.promise("measurement-finds-holds-others")
def test_a_service_that_sleeps_in_its_loop_is_caught() -> None:
    assert seen("/hold/").waited_s > MAX_WAIT_S


@pytest.mark.promise("measurement-finds-holds-others")
def test_a_wait_of_the_machine_is_not_taken_for_one_of_the_service() -> None:
    """A caller waits long here, whether anything else is sent or not."""
    assert seen("/", noise_s=NOISE_S).waited_s <= MAX_WAIT_S
