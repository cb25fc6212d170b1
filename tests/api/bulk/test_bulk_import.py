"""Accounts in bulk over HTTP, against a running service."""

import gzip
import http.client
import itertools
import json
from typing import Any

import pytest
import zstandard

from tests.support.bulk import BULK, bulk, ndjson, number_of, wait_until_processed
from tests.support.make import an_account, changed, encoded
from tests.support.running import Importer, RunningService, wait_for

_numbers = itertools.count(1)
PACK = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}
each_coding = pytest.mark.parametrize("kind", PACK)


@pytest.fixture
def accounts(importer: Importer) -> list[dict[str, Any]]:
    """Three fresh accounts of the importer's supplier."""
    return [an_account(importer.supplier, next(_numbers)) for _ in range(3)]


@pytest.mark.promise("post-v2-data-import-accounts-bulk")
def test_each_line_has_a_receipt_and_the_end_a_summary(importer: Importer, accounts: list[dict[str, Any]]) -> None:
    first, second, third = accounts
    spoilt = changed(second, "+49 12", "customers", 0, "landline")
    answer = bulk(importer, ndjson(first, spoilt) + b"\n  \r\n{broken\n" + encoded({"payload": third}))
    assert (answer.status, answer.headers["content-type"]) == (200, "application/x-ndjson")
    assert all(set(receipt) == set(answer.receipts[0]) for receipt in answer.receipts)
    assert answer.statuses == ["PENDING", "REFUSED", "REFUSED", "PENDING"]
    assert [receipt["line"] for receipt in answer.receipts] == [1, 2, 5, 6]
    assert answer.receipts[0] == {
        "line": 1,
        "external_account_number": number_of(first),
        "status": "PENDING",
        "replayed": False,
        "service_identifier": None,
        "code": None,
        "warnings": [],
        "errors": [],
    }
    assert answer.receipts[1]["code"] == "account_failed_validation"
    assert [error["attr"] for error in answer.receipts[1]["errors"]] == ["customers.0.landline"]
    assert answer.receipts[2]["code"] == "parse_error"
    assert answer.receipts[2]["external_account_number"] == ""
    assert answer.summary == {"lines": 6, "accepted": 2, "replayed": 0, "refused": 2}
    wait_until_processed(importer, first, third)
    assert importer.client.status(importer.supplier, number_of(second)).status == 404


@pytest.mark.promise("bulk-receipt-says-replayed")
def test_sending_again_gives_replayed_receipts_in_every_state(
    service: RunningService, importer: Importer, accounts: list[dict[str, Any]]
) -> None:
    body = ndjson(*accounts)
    assert bulk(importer, body).summary == {"lines": 3, "accepted": 3, "replayed": 0, "refused": 0}
    again = bulk(importer, body)
    assert again.summary == {"lines": 3, "accepted": 0, "replayed": 3, "refused": 0}
    wait_until_processed(importer, *accounts)
    done = bulk(importer, body)
    assert [(r["status"], r["replayed"]) for r in done.receipts] == [("PENDING", True)] * 3
    assert all(receipt["service_identifier"].startswith("A-") for receipt in done.receipts)
    other_spelling = b"".join(
        json.dumps(account, indent=None, separators=(" ,", " : ")).encode() + b"\n" for account in accounts
    )
    assert bulk(importer, other_spelling).summary == {"lines": 3, "accepted": 0, "replayed": 3, "refused": 0}
    [refused] = bulk(importer, ndjson(changed(accounts[0], "Other", "customers", 0, "given_name"))).receipts
    assert (refused["status"], refused["code"]) == ("REFUSED", "account_import_process_already_imported")
    assert refused["service_identifier"].startswith("A-")
    for account in accounts:
        history = service.cli("history", importer.supplier, number_of(account), "--json").stdout.splitlines()
        assert [json.loads(line)["event"] for line in history].count("ImportStaged") == 1


def test_dry_run_makes_every_line_a_dry_run(importer: Importer, accounts: list[dict[str, Any]]) -> None:
    assert bulk(importer, ndjson(*accounts), "?mode=dry_run").statuses == ["PENDING"] * 3
    number = number_of(accounts[0])
    ended = "DRY_RUN_SUCCEEDED"
    wait_for(lambda: importer.client.status(importer.supplier, number).body["status"] == ended, "the dry run has ended")


@pytest.mark.promise("gzip-members-zstd-frames")
@each_coding
def test_a_compressed_body_that_ends_early_is_refused_after_the_receipts_of_its_lines(
    importer: Importer, accounts: list[dict[str, Any]], kind: str
) -> None:
    pack = PACK[kind]
    first, second = (pack(ndjson(account)) for account in accounts[:2])
    cut = bulk(importer, first + second[:10], "?mode=validate", Content_Encoding=kind)
    assert cut.status == 200
    assert [line.get("status", line["code"]) for line in cut.receipts] == ["VALID", "parse_error"]
    assert cut.summary is None
    assert bulk(importer, first[:10], "?mode=validate", Content_Encoding=kind).status == 400


@pytest.mark.promise("gzip-members-zstd-frames", "ndjson-limits-hold-each")
@pytest.mark.asvs("V5.2.3")
def test_a_bomb_is_refused(importer: Importer) -> None:
    bomb = zstandard.ZstdCompressor().compress(b"\0" * 300_000_000)
    answer = bulk(importer, bomb, Content_Encoding="zstd")
    assert answer.status == 413
    assert bulk(importer, b"{}", Content_Encoding="gzip").status == 400
    assert bulk(importer, b"{}", Content_Encoding="br").status == 415
    assert bulk(importer, b"{}", Content_Type="text/csv").status == 415


@pytest.mark.promise("ndjson-limits-hold-each")
def test_a_line_that_is_too_long_is_refused_alone(importer: Importer, accounts: list[dict[str, Any]]) -> None:
    long = b'{"import_supplier": "' + b"x" * (10 * 1024 * 1024) + b'"}\n'
    answer = bulk(importer, ndjson(accounts[0]) + long + ndjson(accounts[1]), "?mode=validate")
    assert answer.statuses == ["VALID", "REFUSED", "VALID"]
    assert answer.receipts[1]["code"] == "request_too_large"


def nested(levels: int) -> Any:
    return [nested(levels - 1)] if levels else []


@pytest.mark.parametrize("path", [BULK, "/v1/data-import/delivery-note/bulk/"])
@pytest.mark.parametrize(
    "spoilt",
    [
        {"import_supplier": 5},
        {"import_supplier": "NOBODY"},
        {"customers": [{"nonsense": 1}] * 2_000},
        {"references": [[]] * 400_000},
        {"metadata": [{"key": "deep", "value": nested(70)}]},
        {"external_account_number": " F-1 "},
        {"external_account_number": "", "payload": {"external_account_number": "F-1"}},
    ],
    ids=["supplier", "unknown", "many problems", "too large", "too deep", "outer blanks", "wrapped"],
)
def test_a_receipt_keeps_its_account_number_whenever_the_line_can_be_parsed(
    importer: Importer, spoilt: dict[str, Any], path: str
) -> None:
    line = {"external_account_number": "F-1", "import_supplier": importer.supplier} | spoilt
    [receipt] = bulk(importer, ndjson(line), path=path).receipts
    assert (receipt["status"], receipt["external_account_number"]) == ("REFUSED", "F-1")


@pytest.mark.parametrize("path", [BULK, "/v1/data-import/delivery-note/bulk/"])
@pytest.mark.parametrize("body", [b"", b"\n", b" \r\n\n \t", b"\xef\xbb\xbf\n"])
def test_a_body_without_a_line_is_refused(importer: Importer, path: str, body: bytes) -> None:
    for coding, sent in (("identity", body), ("gzip", gzip.compress(body)), ("gzip", b"")):
        answer = bulk(importer, sent, path=path, Content_Encoding=coding)
        assert (answer.status, json.loads(answer.text)["code"]) == (400, "parse_error")


def test_a_paused_supplier_takes_replays_only(service: RunningService) -> None:
    paused = service.importer()
    account = an_account(paused.supplier)
    assert bulk(paused, ndjson(account)).statuses == ["PENDING"]
    wait_until_processed(paused, account)
    service.cli("supplier", "status", paused.supplier, "paused")

    def is_refused() -> bool:
        [first, second] = bulk(paused, ndjson(account, an_account(paused.supplier, next(_numbers)))).receipts
        return bool(first["replayed"] and second["code"] == "import_supplier_migration_not_ongoing")

    wait_for(is_refused, "a paused supplier takes replays only")


def opened(
    importer: Importer, line: bytes, path: str = BULK
) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    """A bulk request whose first line has been sent, and its answer."""
    connection = importer.service.connection()
    connection.putrequest("POST", path)
    connection.putheader("Authorization", f"Token {importer.api_key}")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    connection.send(b"%x\r\n%s\r\n" % (len(line), line))
    response = connection.response_class(connection.sock, method="POST")
    response.begin()
    return connection, response


@pytest.mark.promise("key-revoked-session-ends")
@pytest.mark.parametrize("path", [BULK, "/v1/data-import/delivery-note/bulk/"])
def test_a_revoked_key_writes_nothing_more_on_an_open_bulk_body(service: RunningService, path: str) -> None:
    importer = service.importer()
    first, second = an_account(importer.supplier, 1), an_account(importer.supplier, 2)
    connection, response = opened(importer, ndjson(first), path)
    assert json.loads(response.readline())["line"] == 1
    importer.revoke()
    line = ndjson(second)
    connection.send(b"%x\r\n%s\r\n" % (len(line), line))
    [last] = [json.loads(line) for line in response.read().splitlines()]
    assert last == {"detail": "The credentials are not valid.", "code": "authentication_failed"}
    connection.close()
    assert service.cli("history", importer.supplier, number_of(second), check=False).returncode != 0


@pytest.mark.promise("post-v2-data-import-accounts-bulk")
def test_receipts_come_while_the_body_is_still_coming(importer: Importer, accounts: list[dict[str, Any]]) -> None:
    connection, response = opened(importer, ndjson(accounts[0]))
    assert json.loads(response.readline())["status"] == "PENDING"
    assert importer.client.status(importer.supplier, number_of(accounts[0])).status == 200
    line = ndjson(accounts[1])
    connection.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(line), line))
    assert json.loads(response.readline())["line"] == 2
    assert json.loads(response.readline())["summary"]["lines"] == 2
    connection.close()


@pytest.mark.promise("suggestions-only-on-request")
def test_problems_have_suggestions_only_with_suggest_1(importer: Importer, accounts: list[dict[str, Any]]) -> None:
    wrong = changed(changed(accounts[0], "31.12.1979", "customers", 0, "date_of_birth"), "4109", "billing_postcode")
    [plain] = bulk(importer, ndjson(wrong), "?mode=validate").receipts
    [off] = bulk(importer, ndjson(wrong), "?mode=validate&suggest=0").receipts
    [on] = bulk(importer, ndjson(wrong), "?mode=validate&suggest=1", Accept_Language="de").receipts
    assert off == plain
    assert not any("suggestion" in problem for problem in (*plain["errors"], *plain["warnings"]))
    [error], [warning] = on["errors"], on["warnings"]
    assert error["suggestion"] == {
        "name": "date",
        "value": "1979-12-31",
        "sentence": "Das Datum als Jahr, Monat und Tag.",
    }
    assert warning["suggestion"]["value"] == "04109"
    answer, _ = importer.request("POST", "/v2/data-import/accounts/validate/?suggest=1", encoded(wrong))
    [single] = answer.body["errors"]
    assert single["suggestion"]["value"] == "1979-12-31"
