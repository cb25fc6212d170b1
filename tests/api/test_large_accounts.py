"""Very large accounts are read and judged one after the other: what is made of one takes six times its size."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from api.admission import Call
from api.directory import Key
from api.endpoints import account_import
from api.endpoints.account_import import AccountImport
from api.errors import NotValid
from api.limits import MAX_MEDIUM_BYTES
from projections.import_supplier import KnownSupplier
from tests.support.make import an_account, encoded
from tests.support.staging import SUPPLIER

KEY = Key("key", "organisation", "importer", (SUPPLIER,), "", None)


async def _unknown(_: str) -> None:
    """The directory of a service without suppliers."""


def _most_at_a_time(handle: Callable[[AccountImport], Callable[[Request, Call], Awaitable[Any]]], size: int) -> int:
    """How many of five accounts of so many bytes, which come together, are read and not yet judged at a time."""
    services: Any = SimpleNamespace(
        ledger=None, pool=None, statuses=None, runs=None, directory=SimpleNamespace(supplier=_unknown)
    )
    account = an_account(SUPPLIER) | {"metadata": [{"key": "filling", "value": "x" * size}]}
    bodies = [encoded(account | {"external_account_number": f"NW-{number}"}) for number in range(5)]

    async def send() -> None:
        handler = handle(AccountImport(services))
        request = Request({"type": "http", "method": "POST", "headers": []})
        answers = await asyncio.gather(*(handler(request, Call(KEY, body)) for body in bodies), return_exceptions=True)
        assert {type(answer) for answer in answers} == {NotValid}

    read = most = 0
    reading, judging = vars(account_import)["sent_submission"], vars(account_import)["judge"]

    def counted(body: bytes) -> Any:
        nonlocal read, most
        read += 1
        most = max(most, read)
        return reading(body)

    def uncounted(*arguments: Any) -> Any:
        nonlocal read
        judged = judging(*arguments)
        read -= 1
        return judged

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(account_import, "sent_submission", counted)
        patch.setattr(account_import, "judge", uncounted)
        asyncio.run(send())
    return most


@pytest.mark.parametrize("handle", [lambda one: one.validate, lambda one: one.create], ids=["validate", "create"])
def test_the_next_very_large_account_is_read_when_the_last_is_judged(handle: Any) -> None:
    assert _most_at_a_time(handle, MAX_MEDIUM_BYTES) == 1
    assert _most_at_a_time(handle, MAX_MEDIUM_BYTES // 2) > 1


def test_nobody_waits_for_what_the_database_is_asked_about_a_refused_account() -> None:
    """Whether it exists is asked when its turn has ended: however long that takes, the next one has its turn."""

    async def known(code: str) -> KnownSupplier:
        return KnownSupplier(code=code)

    async def unanswered(_: tuple[str, str]) -> None:
        asked.append(1)
        await asyncio.sleep(3600)

    asked: list[int] = []
    services: Any = SimpleNamespace(
        ledger=None,
        pool=None,
        statuses=SimpleNamespace(read=unanswered),
        runs=SimpleNamespace(validate=lambda *_: None),
        directory=SimpleNamespace(supplier=known),
    )
    account = an_account(SUPPLIER) | {"metadata": [{"key": "filling", "value": "x" * MAX_MEDIUM_BYTES}]}

    async def send() -> int:
        handler, request = AccountImport(services), Request({"type": "http", "method": "POST", "headers": []})
        refused = Call(KEY, encoded(account | {"undocumented": 1}))
        waiting = asyncio.create_task(handler.create(request, refused))
        while not asked:
            await asyncio.sleep(0.01)
        answer = await asyncio.wait_for(handler.validate(request, Call(KEY, encoded(account))), 10)
        waiting.cancel()
        return answer.status_code

    assert asyncio.run(asyncio.wait_for(send(), 20)) == 200
