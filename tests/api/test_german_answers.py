"""`Accept-Language: de` over HTTP: every `detail` of an answer is German, and nothing else changes."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from api.bulk.body import MAX_BATCH_LINES
from tests.support.bulk import wait_for_helpers
from tests.support.german import is_german
from tests.support.importing import Answer
from tests.support.make import an_account, changed, encoded
from tests.support.running import Importer, RunningService

ACCOUNTS = "/v2/data-import/accounts/"
GERMAN = {"Accept-Language": "de-DE,de;q=0.9,en;q=0.5"}


def request(
    caller: Importer | RunningService, method: str, path: str, body: Any = None, **headers: str
) -> tuple[Answer, Mapping[str, str]]:
    """The answer in German; a stranger asks the service itself."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return caller.request(method, path, body, GERMAN | named)


def details(body: Any) -> Iterator[str]:
    """Every `detail` of an answer, and the sentences of the tree."""
    match body:
        case {"detail": str(detail), **rest}:
            yield detail
            yield from details(rest)
        case dict():
            for name, inner in body.items():
                if name not in ("code", "attr", "status", "account_id", "request_id", "domain"):
                    yield from details(inner)
        case list():
            for inner in body:
                yield from details(inner)
        case str():
            yield body
        case _:
            pass


def assert_german(answer: Answer, headers: Mapping[str, str], status: int) -> None:
    assert answer.status == status
    sentences = list(details(answer.body))
    assert sentences
    for sentence in sentences:
        assert is_german(sentence), sentence
    named = {name.lower(): value for name, value in headers.items()}
    assert named["content-language"] == "de"
    assert "Accept-Language" in named["vary"]


def spoilt(importer: Importer) -> dict[str, Any]:
    account = changed(an_account(importer.supplier, 1), 5, "customers", 0, "landline")
    account = changed(account, "x@", "customers", 0, "email")
    account = changed(account, ..., "supply_addresses", 0, "supply_postcode")
    return account | {"sales_chanel": "x", "transfer_balance": "1e"}


def test_all_problems_of_an_account_are_german_as_list_and_as_tree(importer: Importer) -> None:
    answer, headers = request(importer, "POST", f"{ACCOUNTS}validate/", spoilt(importer))
    assert_german(answer, headers, 400)
    assert answer.body["customers"]["0"]["email"] == ["Die E-Mail-Adresse muss gültig sein."]
    english, headers = request(
        importer, "POST", f"{ACCOUNTS}validate/", spoilt(importer), Accept_Language="en, de;q=0.5"
    )
    assert [(e["code"], e["attr"]) for e in english.body["errors"]] == [
        (e["code"], e["attr"]) for e in answer.body["errors"]
    ]
    assert english.body["customers"]["0"]["email"] == ["The e-mail address must be valid."]
    assert headers["content-language"] == "en"


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("POST", ACCOUNTS, b"{", {}, 400),
        ("POST", ACCOUNTS, b"{}", {"Idempotency_Key": "ü".encode().decode("latin-1")}, 400),
        ("POST", ACCOUNTS, {"import_supplier": "NOBODY"}, {}, 400),
        ("POST", ACCOUNTS, b"{}", {"Content_Type": "text/html"}, 415),
        ("POST", f"{ACCOUNTS}bulk/?mode=x", b"{}", {}, 400),
        ("POST", f"{ACCOUNTS}bulk/", b"xyz", {"Content_Encoding": "gzip"}, 400),
        ("GET", f"{ACCOUNTS}NOBODY/X/", None, {}, 404),
        ("POST", ACCOUNTS, b" " * (11 * 1024 * 1024), {}, 413),
        ("POST", "/v2/data-import/search/", {"q": "x"}, {}, 403),
        ("POST", "/v1/data-import/market-participant/import/", {"code": "1"}, {}, 400),
        ("POST", "/v1/graphql/", b"x", {}, 400),
    ],
)
def test_a_refusal_is_german(
    importer: Importer, method: str, path: str, body: Any, headers: dict[str, str], status: int
) -> None:
    assert_german(*request(importer, method, path, body, **headers), status)


def test_strangers_and_odd_heads_are_refused_in_german(service: RunningService) -> None:
    assert_german(*request(service, "GET", f"{ACCOUNTS}X/Y/"), 401)
    assert_german(*request(service, "GET", f"{ACCOUNTS}X/Y/", Authorization="Token x"), 401)
    assert_german(*request(service, "GET", f"/{'x' * 20_000}"), 414)
    assert_german(*request(service, "GET", "/livez/", X_Long="x" * 40_000), 431)


def test_warnings_of_a_representation_are_german_and_a_repeat_is_told_as_at_first(importer: Importer) -> None:
    account = changed(an_account(importer.supplier, 2), "4109", "billing_postcode")
    named = {"Prefer": "return=representation", "Idempotency_Key": f"german-{importer.supplier}"}
    assert_german(*request(importer, "POST", f"{ACCOUNTS}validate/", account, Prefer=named["Prefer"]), 200)
    first, _ = request(importer, "POST", ACCOUNTS, account, **named)
    assert first.body["warnings"][0]["detail"] == "Eine deutsche Postleitzahl muss fünf Ziffern haben."
    again, _ = request(importer, "POST", ACCOUNTS, account, **named, Accept_Language="en")
    assert again.body == first.body
    problems = f"{ACCOUNTS}{importer.supplier}/{account['external_account_number']}/problems/"
    assert_german(*request(importer, "GET", problems), 200)


def test_receipts_are_german(importer: Importer) -> None:
    """Helper processes judge them."""
    wait_for_helpers(importer)
    lines = [encoded(spoilt(importer) | {"external_account_number": f"G-{n}"}) for n in range(3 * MAX_BATCH_LINES)]
    lines += [b"{", encoded({"import_supplier": "NOBODY"}), b"[]"]
    body = b"\n".join(lines)
    answer, headers = request(
        importer, "POST", f"{ACCOUNTS}bulk/?mode=validate", body, Content_Type="application/x-ndjson"
    )
    assert answer.status == 200
    assert headers["content-language"] == "de"
    *receipts, _ = answer.body
    assert len(receipts) == len(lines)
    for receipt in receipts:
        assert receipt["errors"]
        assert all(is_german(error["detail"]) for error in receipt["errors"])
