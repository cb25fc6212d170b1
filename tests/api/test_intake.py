"""A create holds no account, result of its check or body in memory while it waits for its commit."""

import asyncio
from collections.abc import Coroutine, Iterator
from types import CoroutineType
from typing import Any

import msgspec
from starlette.requests import Request

from api.access.directory import Key
from api.admission import Call
from api.endpoints.account_import import AccountImport
from api.operations import OPERATIONS
from api.services import Services
from market.submission_check import SubmissionCheck
from projections.views.import_supplier import KnownSupplier
from schemas.account import Account
from schemas.submission import Submission
from tests.support.make import an_account, encoded
from tests.support.staging import confirmed

SUPPLIER = "NORDWIND"
ACCOUNTS = "/v2/data-import/accounts/"


def test_nothing_of_a_request_lives_while_its_commit_is_awaited() -> None:
    body = encoded(an_account(SUPPLIER))
    in_memory = asyncio.run(waiting(body))
    assert not [value for value in in_memory if isinstance(value, Account | Submission | SubmissionCheck)]
    assert body not in in_memory
    assert any(isinstance(value, msgspec.Struct) for value in in_memory), "the search finds what is held"


async def waiting(body: bytes) -> list[Any]:
    """Return all that a create's frames hold while the log does not answer."""
    services = Services("postgresql://nobody@127.0.0.1:1/none", b"k" * 32, None, operations=OPERATIONS)
    services.directory._suppliers[SUPPLIER] = KnownSupplier(code=SUPPLIER)
    scope = {"type": "http", "method": "POST", "headers": [], "query_string": b""}
    call = Call(Key("k", "Testers", "importer", (SUPPLIER,), "", None), confirmed, body)
    creating = AccountImport(services).create_account(Request(scope), call)
    try:
        waits = creating.send(None)
        while call.body:  # its steps are done in the loop's next turns
            await asyncio.wait_for(asyncio.shield(waits), 60)
            waits = creating.send(None)
        assert not waits.done()
        return list(held(creating))
    finally:
        creating.close()
        await asyncio.to_thread(services.ledger.close)


def held(creating: Coroutine[Any, Any, Any]) -> Iterator[Any]:
    """Yield the local values of a coroutine and of those that it awaits, and the fields of their Structs."""
    awaited: Any = creating
    while isinstance(awaited, CoroutineType):
        assert awaited.cr_frame is not None
        for value in awaited.cr_frame.f_locals.values():
            yield value
            if isinstance(value, msgspec.Struct):
                yield from msgspec.structs.astuple(value)
        awaited = awaited.cr_await
