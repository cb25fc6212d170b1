"""What a create keeps while it waits for its commit: what is committed, and nothing that it was made from."""

import asyncio
from collections.abc import Coroutine, Iterator
from types import CoroutineType
from typing import Any

import msgspec
from starlette.requests import Request

from api.admission import Call
from api.directory import Key
from api.endpoints.account_import import AccountImport
from api.operations import OPERATIONS
from api.services import Services
from market.judging import Judgement
from projections.import_supplier import KnownSupplier
from schemas.account import Account
from schemas.submission import Submission
from tests.support.make import an_account, encoded

SUPPLIER = "NORDWIND"


def test_nothing_of_a_request_is_kept_alive_while_it_waits_for_its_commit() -> None:
    body = encoded(an_account(SUPPLIER))
    kept = asyncio.run(waiting(body))
    assert not [value for value in kept if isinstance(value, Account | Submission | Judgement)]
    assert body not in kept
    assert any(isinstance(value, msgspec.Struct) for value in kept), "the search finds what is kept"


async def waiting(body: bytes) -> list[Any]:
    """All that a create's frames hold while the log does not answer."""
    services = Services.on("postgresql://nobody@127.0.0.1:1/none", b"k" * 32, None, operations=OPERATIONS,
                           refusals_interval_s=60)  # fmt: skip
    services.directory._suppliers[SUPPLIER] = KnownSupplier(code=SUPPLIER)
    scope = {"type": "http", "method": "POST", "headers": [], "query_string": b""}
    call = Call(Key("k", "Testers", "importer", (SUPPLIER,), "", None), body)
    creating = AccountImport(services).create(Request(scope), call)
    try:
        creating.send(None)  # it waits now
        assert call.body == b""
        return list(held(creating))
    finally:
        creating.close()
        await asyncio.to_thread(services.ledger.close)


def held(creating: Coroutine[Any, Any, Any]) -> Iterator[Any]:
    """The local values of a coroutine and of those that it awaits, and what stands in their Structs."""
    awaited: Any = creating
    while isinstance(awaited, CoroutineType):
        assert awaited.cr_frame is not None
        for value in awaited.cr_frame.f_locals.values():
            yield value
            if isinstance(value, msgspec.Struct):
                yield from msgspec.structs.astuple(value)
        awaited = awaited.cr_await
