"""The clients for programs: the same verbs, waiting and awaited, against a service."""

import contextlib
import http.server
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from importledger_client import (
    AlreadyImported,
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
from tests.support.importbook import access_to, importbook
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


def test_a_wrong_key_is_refused_at_once(service: RunningService) -> None:
    with Client(service.base_url, "ilk_wrong") as client, pytest.raises(NotAllowed):
        client.status("X", "Y")


def test_an_address_with_a_path_too_many_is_named_and_not_a_missing_run(service: RunningService) -> None:
    importer = service.importer()
    with (
        Client(f"{service.base_url}/v2", importer.api_key) as client,
        pytest.raises(ImportLedgerError, match="is the address right") as refused,
    ):
        client.run(importer.supplier, "x")
    assert not isinstance(refused.value, NotFound)


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


@pytest.mark.parametrize(
    ("url", "is_taken"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://127.8.9.1", True),
        ("http://[::1]:8000", True),
        ("http://localhost:8000/", True),
        ("https://ledger.example.org", True),
        ("http://ledger.example.org", False),
        ("http://10.0.0.5:8000", False),
        ("http://[fe80::1]", False),
        ("http://localhost.example.org", False),
        ("http://localhost@ledger.example.org", False),
        ("http://127.0.0.1.example.org", False),
        ("http://", False),
    ],
)
def test_a_key_is_not_sent_over_plain_http_to_another_machine(url: str, *, is_taken: bool) -> None:
    if is_taken:
        Client(url, "ilk_x")
    else:
        with pytest.raises(Misconfigured, match="must begin with https://"):
            Client(url, "ilk_x")
        Client(url, "ilk_x", insecure_http=True)


def test_importbook_refuses_plain_http_to_another_machine_without_its_option() -> None:
    access = {"IMPORTLEDGER_URL": "http://192.0.2.1:8000", "IMPORTLEDGER_KEY": "ilk_x"}
    refused = importbook("errors", "go-live", "--supplier", "S", access=access)
    assert refused.returncode == 2
    assert "--insecure-http" in refused.stderr


class Redirecting(http.server.BaseHTTPRequestHandler):
    """Answers everything with a redirect, and remembers what was sent."""

    seen: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.seen.append(self.path)
        self.send_response(307)
        self.send_header("Location", f"http://127.0.0.2:{self.server.server_port}/elsewhere")  # type: ignore[attr-defined]
        self.end_headers()

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def redirecting() -> Iterator[int]:
    Redirecting.seen.clear()
    with http.server.ThreadingHTTPServer(("", 0), Redirecting) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_a_redirect_takes_no_key_along() -> None:
    with redirecting() as port, Client(f"http://127.0.0.1:{port}", "ilk_x") as client:
        with pytest.raises(ImportLedgerError):
            client.status("S", "1")
        assert Redirecting.seen == ["/v1/graphql/"]


def test_what_stays_on_this_machine_is_sent_to_no_proxy(
    service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    importer = service.importer()
    with redirecting() as port:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        with Client(service.base_url, importer.api_key) as client, pytest.raises(NotFound):
            client.status(importer.supplier, "none")
        assert Redirecting.seen == []
