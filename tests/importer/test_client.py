"""The clients for programs: the same verbs, waiting and awaited, against a service."""

import asyncio
from typing import Any

import pytest

from importledger_client import (
    Account,
    AlreadyImported,
    AsyncClient,
    Client,
    Failure,
    ImportLedgerError,
    LatestError,
    Misconfigured,
    NotAllowed,
    NotFound,
    Refused,
    Unavailable,
)
from importledger_client.batches import Batch
from importledger_client.protocol import TryLater
from tests.support.importbook import access_to
from tests.support.make import an_account, changed, encoded
from tests.support.running import RunningService, free_port

SLOW_S = 60.0


def test_an_account_is_created_followed_and_not_created_twice(
    service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    importer = service.importer()
    for name, value in access_to(service, importer).items():
        monkeypatch.setenv(name, value)
    account = an_account(importer.supplier)
    number = account["external_account_number"]
    with Client() as client:
        assert client.validate(account).status == "VALID"
        with pytest.raises(NotFound):
            client.status(importer.supplier, number)
        receipt = client.create(account)
        assert (receipt.status, receipt.external_account_number) == ("PENDING", number)
        ended = client.wait(importer.supplier, number, timeout_s=SLOW_S)
        assert ended.status == "PROCESSED"
        with pytest.raises(AlreadyImported) as refused:
            client.create(changed(account, "Other", "billing_address4"))
        assert refused.value.service_identifier == ended.service_identifier
        assert refused.value.code == "account_import_process_already_imported"


def test_a_refusal_names_every_error(service: RunningService) -> None:
    importer = service.importer()
    account = changed(an_account(importer.supplier), "+49 12", "customers", 0, "landline")
    with Client(service.base_url, importer.api_key) as client:
        for verb in (client.validate, client.create):
            with pytest.raises(Refused) as refused:
                verb(account)
            (error,) = refused.value.errors
            assert (error.attr, error.code) == ("customers.0.landline", "invalid_phone_number")
            assert error.detail in str(refused.value)


def test_an_account_may_be_typed(service: RunningService) -> None:
    importer = service.importer()
    typed = Account(external_account_number="T-1", import_supplier=importer.supplier, unknown_occupier=True)
    with Client(service.base_url, importer.api_key) as client, pytest.raises(Refused) as refused:
        client.create(typed)
    assert {error.code for error in refused.value.errors} == {"billing_address_not_provided"}


def test_a_wrong_key_is_refused_at_once(service: RunningService) -> None:
    with Client(service.base_url, "ilk_wrong") as client, pytest.raises(NotAllowed):
        client.status("X", "Y")


def test_a_service_that_is_not_there_is_unavailable() -> None:
    waits: list[str] = []
    client = Client(
        f"http://127.0.0.1:{free_port()}", "k", first_patience_s=0.5, on_wait=lambda why, _: waits.append(why)
    )
    with client, pytest.raises(Unavailable, match="cannot be used"):
        client.runs("X")
    assert waits


def test_without_address_or_key_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IMPORTLEDGER_URL", raising=False)
    with pytest.raises(Misconfigured, match="IMPORTLEDGER_URL"):
        Client()
    assert issubclass(Misconfigured, ImportLedgerError)


def test_the_awaited_client_does_the_same(service: RunningService) -> None:
    importer = service.importer()
    account = an_account(importer.supplier)

    async def script() -> tuple[Any, ...]:
        async with AsyncClient(service.base_url, importer.api_key) as client:
            valid = await client.validate(account)
            created = await client.create(account)
            ended = await client.wait(importer.supplier, account["external_account_number"], timeout_s=SLOW_S)
            with pytest.raises(Refused) as refused:
                await client.create(changed(an_account(importer.supplier, 2), None, "customers"))
            return valid.status, created.status, ended.status, refused.value.errors[0].attr

    assert asyncio.run(script()) == ("VALID", "PENDING", "PROCESSED", "customers")


def test_a_failure_says_what_is_wrong_and_where() -> None:
    detail = "The account could not be validated: some_code@statements.0.statement_path, other@customers.1.email"
    failure = Failure(latest_error=LatestError("account_failed_validation", detail, "account_import"))
    assert [(error.code, error.attr) for error in failure.errors] == [
        ("some_code", "statements.0.statement_path"),
        ("other", "customers.1.email"),
    ]
    given_up = Failure(latest_error=LatestError("attempts_exhausted", "Ask a@b about it."))
    assert [(error.code, error.attr) for error in given_up.errors] == [("attempts_exhausted", "")]
    assert Failure().errors == ()


def test_empty_lines_count_and_are_not_sent(service: RunningService) -> None:
    importer = service.importer()
    account = encoded(an_account(importer.supplier))
    lines = [account, b"", b" \n", "", b"\xef\xbb\xbf", account, b"{broken", b"\n"]
    with Client(service.base_url, importer.api_key) as client:
        receipts = list(client.push(lines, mode="validate"))
    assert [(receipt.line, receipt.status) for receipt in receipts] == [(1, "VALID"), (6, "VALID"), (7, "REFUSED")]


def test_an_answer_that_lacks_lines_is_not_asked_for_again() -> None:
    batch = Batch([1, 2], [b"{}", b"{}"])
    batch.content()
    batch.take(b'{"line":1,"external_account_number":"","status":"VALID"}')
    with pytest.raises(TryLater):
        batch.check()
    batch.take(b'{"summary":{"lines":1,"accepted":1,"replayed":0,"refused":0}}')
    with pytest.raises(ImportLedgerError, match="fewer lines"):
        batch.check()
