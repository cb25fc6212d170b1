"""A book is pushed, reverted, corrected, pushed again and released, by the verbs and over HTTP."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.importbook import access_to, importbook
from tests.support.importing import Answer
from tests.support.make import an_account, changed, encoded
from tests.support.post_account import PATHS, RECORDS
from tests.support.running import Importer, processed, wait_for

ACCOUNTS = 200
CREATE = "/v2/data-import/accounts/"


def verb(importer: Importer, *words: str) -> dict[str, Any]:
    ended = importer.service.cli(words[0], importer.supplier, *words[1:], "--json")
    shown: dict[str, Any] = json.loads(ended.stdout)
    return shown


def write_book(folder: Path, importer: Importer, name: str) -> None:
    accounts = [an_account(importer.supplier, number) for number in range(1, ACCOUNTS + 1)]
    lines = [encoded(changed(account, name, "customers", 0, "family_name")) for account in accounts]
    (folder / "book.ndjson").write_bytes(b"\n".join(lines) + b"\n")


@pytest.mark.promise("revert-and-push-again", "release-ends-reverts", "revert-takes-back")
def test_a_book_is_undone_sent_again_balanced_and_released(importer: Importer, folder: Path) -> None:
    access = access_to(importer)

    def push_and_reconcile(name: str) -> str:
        write_book(folder, importer, name)
        for words in (("push", "book.ndjson", "--run", "r", "--wait"), ("manifest", "book.ndjson", "-o", "m.json")):
            ended = importbook(*words, at=folder, access=access)
            assert ended.returncode == 0, ended.stdout + ended.stderr
        return importbook("reconcile", "r", "--manifest", "m.json", at=folder, access=access).stdout

    assert "BALANCED" in push_and_reconcile("Wrong")
    first = {item["service_account_number"] for item in importer.client.imported(importer.supplier).body}
    preview = verb(importer, "revert", "--run", "r")
    assert preview == {"revertible": ACCOUNTS, "kept": 0, "failed": 0, "kept_by_reason": {}}
    assert processed(importer) == ACCOUNTS, "a preview changes nothing"
    done = verb(importer, "revert", "--run", "r", "--yes", "--reason", "wrong mapping")
    assert done == {"reverted": ACCOUNTS, "kept": 0, "failed": 0, "kept_by_reason": {}}
    assert processed(importer) == 0
    assert importer.client.pending(importer.supplier).body == []
    external = str(an_account(importer.supplier, 1)["external_account_number"])
    status = importer.client.status(importer.supplier, external).body
    assert (status["status"], status["service_identifier"], status["latest_error"]) == ("CANCELLED", None, None)
    path = f"/v1/data-import/account-transfer-status/{importer.supplier}/{external}/"
    assert importer.request("GET", path)[0] == Answer(200, {"status": "UNKNOWN", "service_account_number": ""})
    assert "BALANCED" in push_and_reconcile("Right")
    second = {item["service_account_number"] for item in importer.client.imported(importer.supplier).body}
    assert (len(second), second & first) == (ACCOUNTS, set())
    assert verb(importer, "release", "--run", "r") == {"accounts": ACCOUNTS, "is_released": False}
    released = verb(importer, "release", "--run", "r", "--yes", "--reason", "checked")
    assert released == {"accounts": ACCOUNTS, "is_released": True}
    kept = verb(importer, "revert", "--run", "r", "--yes", "--reason", "too late")
    assert kept == {"reverted": 0, "kept": ACCOUNTS, "failed": 0, "kept_by_reason": {"release": ACCOUNTS}}
    assert importer.client.status(importer.supplier, external).body["released_at"].endswith("Z")
    listed, _ = importer.request("GET", f"/v2/data-import/suppliers/{importer.supplier}/imports/?limit={ACCOUNTS}")
    assert [row["released_at"] for row in listed.body] == [listed.body[0]["released_at"]] * ACCOUNTS
    (folder / "r.certificate.json").unlink()
    assert importbook("reconcile", "r", "--manifest", "m.json", at=folder, access=access).returncode == 0
    certificate = msgspec.json.decode((folder / "r.certificate.json").read_bytes())
    assert certificate["totals"]["released_at"].endswith("Z")
    assert b"Released" in (folder / "r.certificate.pdf").read_bytes()
    importer.service.cli("seal")
    assert "WARNED" not in importer.service.cli("verify", "--all").stdout


@pytest.mark.promise("revert-and-push-again", "revert-keeps-what-was-followed")
def test_a_repeated_request_stages_a_reverted_account_again_and_its_record_is_refused(importer: Importer) -> None:
    account = an_account(importer.supplier, 301)
    external, before = str(account["external_account_number"]), processed(importer)

    def create() -> Answer:
        return importer.request("POST", CREATE, account, {"Idempotency-Key": "once"})[0]

    assert create() == Answer(201, {})
    wait_for(lambda: processed(importer) == before + 1, "the account exists")
    number = importer.client.status(importer.supplier, external).body["service_identifier"]
    done = verb(importer, "revert", external, "--yes", "--reason", "r")
    assert done["reverted"] == 1
    named = {"import_supplier": importer.supplier, "external_account_number": external}
    note = {**named, "delivery_note": RECORDS["delivery_note"]}
    refused = importer.request("POST", PATHS["delivery_note"], note)[0]
    assert (refused.status, refused.codes) == (400, ("account_not_found",))
    assert create() == Answer(201, {})
    wait_for(lambda: processed(importer) == before + 1, "the account exists again")
    assert importer.client.status(importer.supplier, external).body["service_identifier"] not in (None, number)
    assert importer.request("POST", PATHS["delivery_note"], note)[0].status == 201
    kept = verb(importer, "revert", external, "--yes", "--reason", "r")
    assert (kept["reverted"], kept["kept_by_reason"]) == (0, {"post_account_data": 1})
