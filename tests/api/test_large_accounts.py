"""Large accounts are read and checked one after the other, since each takes several times its size in memory."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from api.access.directory import Key
from api.admission import Call
from api.endpoints import account_import
from api.endpoints.account_import import AccountImport
from api.http.errors import NotValid
from api.http.limits import MAX_MEDIUM_BYTES
from projections.views.import_supplier import KnownSupplier
from system.steps import Steps
from tests.support.make import an_account, encoded
from tests.support.staging import SUPPLIER, confirmed

READS, JUDGES = "sent_submission_in_steps", "check_submission_in_steps"
KEY = Key("key", "organisation", "importer", (SUPPLIER,), "", None)


class _Suppliers:
    """Directory that has read the suppliers `known`, and finds those of `there` when it is refreshed."""

    def __init__(self, known: tuple[str, ...] = (), there: tuple[str, ...] = ()) -> None:
        self._known = {code: KnownSupplier(code=code) for code in known}
        self._there = {code: KnownSupplier(code=code) for code in there}
        self.refreshes = 0

    def known_supplier(self, code: str) -> KnownSupplier | None:
        return self._known.get(code)

    async def refresh(self) -> None:
        self.refreshes += 1
        await asyncio.sleep(0)
        self._known |= self._there


async def _nothing(_: tuple[str, str]) -> None:
    """The statuses of a service without accounts."""


async def _confirmed(*_: object) -> None:
    """A log without a standby confirms at once, and a request without a run names none."""


def _service(directory: _Suppliers, statuses: Callable[..., Awaitable[None]] = _nothing) -> AccountImport:
    services: Any = SimpleNamespace(
        ledger=None,
        pool=None,
        lists=None,
        statuses=SimpleNamespace(read=statuses),
        runs=SimpleNamespace(validate=lambda *_: None, names=SimpleNamespace(refuse_new=_confirmed)),
        directory=directory,
        acknowledgements=SimpleNamespace(confirm=_confirmed),
    )
    return AccountImport(services)


def _post() -> Request:
    return Request({"type": "http", "method": "POST", "query_string": b"", "headers": []})


def _most_at_a_time(handle: Callable[[AccountImport], Callable[[Request, Call], Awaitable[Any]]], size: int) -> int:
    """Send five accounts of this size together; return the most that are read and not yet judged at a time."""
    account = an_account(SUPPLIER) | {"undocumented": 1, "metadata": [{"key": "filling", "value": "x" * size}]}
    bodies = [encoded(account | {"external_account_number": f"NW-{number}"}) for number in range(5)]

    async def send() -> None:
        handler = handle(_service(_Suppliers(known=(SUPPLIER,))))
        answers = await asyncio.gather(
            *(handler(_post(), Call(KEY, confirmed, body)) for body in bodies), return_exceptions=True
        )
        assert {type(answer) for answer in answers} == {NotValid}

    read = most = 0
    reading, judging = (vars(account_import)[name] for name in (READS, JUDGES))

    def counted(body: bytes, **named: Any) -> Steps[Any]:
        nonlocal read, most
        read += 1
        most = max(most, read)
        return (yield from reading(body, **named))

    def uncounted(*arguments: Any) -> Steps[Any]:
        nonlocal read
        judged = yield from judging(*arguments)
        read -= 1
        return judged

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(account_import, READS, counted)
        patch.setattr(account_import, JUDGES, uncounted)
        asyncio.run(send())
    return most


@pytest.mark.parametrize(
    "handle",
    [lambda endpoint: endpoint.validate_account, lambda endpoint: endpoint.create_account],
    ids=["validate", "create"],
)
def test_the_next_large_account_is_read_when_the_last_is_judged(handle: Any) -> None:
    assert _most_at_a_time(handle, MAX_MEDIUM_BYTES) == 1
    assert _most_at_a_time(handle, MAX_MEDIUM_BYTES // 2) == 1
    assert _most_at_a_time(handle, 1) == 5


def test_nobody_waits_for_the_read_of_the_status_of_a_refused_account() -> None:
    """The status is read after its turn has ended, so a slow read does not delay the next account."""

    async def unanswered(_: tuple[str, str]) -> None:
        reads.append(1)
        await asyncio.sleep(3600)

    reads: list[int] = []
    account = an_account(SUPPLIER) | {"metadata": [{"key": "filling", "value": "x" * MAX_MEDIUM_BYTES}]}

    async def send() -> int:
        handler, request = _service(_Suppliers(known=(SUPPLIER,)), unanswered), _post()
        refused = Call(KEY, confirmed, encoded(account | {"undocumented": 1}))
        waiting = asyncio.create_task(handler.create_account(request, refused))
        while not reads:
            await asyncio.sleep(0.01)
        answer = await asyncio.wait_for(handler.validate_account(request, Call(KEY, confirmed, encoded(account))), 60)
        waiting.cancel()
        return answer.status_code

    assert asyncio.run(asyncio.wait_for(send(), 120)) == 200


@pytest.mark.parametrize("size", [1, MAX_MEDIUM_BYTES // 2, MAX_MEDIUM_BYTES])
def test_a_supplier_that_this_process_does_not_know_yet_is_read_once(size: int) -> None:
    body = encoded(an_account(SUPPLIER) | {"metadata": [{"key": "filling", "value": "x" * size}]})

    async def validated(directory: _Suppliers, key: Key = KEY) -> int:
        return (await _service(directory).validate_account(_post(), Call(key, confirmed, body))).status_code

    new = _Suppliers(there=(SUPPLIER,))
    assert asyncio.run(validated(new)) == 200
    assert new.refreshes == 1
    unknown, foreign = _Suppliers(), _Suppliers(there=(SUPPLIER,))
    with pytest.raises(NotValid) as refused:
        asyncio.run(validated(unknown))
    assert [problem.code for problem in refused.value.problems] == ["invalid_choice"]
    assert unknown.refreshes == 1
    with pytest.raises(NotValid) as also_refused:
        asyncio.run(validated(foreign, Key("key", "organisation", "importer", ("ANOTHER",), "", None)))
    assert also_refused.value.problems == refused.value.problems
    assert foreign.refreshes == 0, "a key that may not touch it causes no read"
