"""Records in bulk over HTTP: delivery notes, energy amounts, invoices, one a line."""

import json
from typing import Any

import pytest

from tests.support.bulk import bulk, ndjson, number_of, wait_until_processed
from tests.support.make import an_account
from tests.support.post_account import RECORDS
from tests.support.running import Importer, RunningService

PATHS = {
    "delivery_note": "/v1/data-import/delivery-note/bulk/",
    "energy_amount": "/v1/data-import/energy-amount/bulk/",
    "market_participant_invoice": "/v1/data-import/market-participant-invoice/bulk/",
}


@pytest.fixture(scope="module")
def importer(service: RunningService) -> Importer:
    """An importer whose accounts 1 and 2 exist."""
    made = service.importer()
    accounts = [an_account(made.supplier, number) for number in (1, 2)]
    bulk(made, ndjson(*accounts))
    wait_until_processed(made, *accounts)
    return made


def lines_of(importer: Importer, field: str, *numbers: int) -> list[dict[str, Any]]:
    return [
        {
            "import_supplier": importer.supplier,
            "external_account_number": number_of(an_account(importer.supplier, number)),
            field: RECORDS[field],
        }
        for number in numbers
    ]


@pytest.mark.promise("post-v1-data-import-delivery-note")
@pytest.mark.parametrize("field", PATHS)
def test_records_are_attached_once_and_replayed_afterwards(importer: Importer, field: str) -> None:
    first, second, missing = lines_of(importer, field, 1, 2, 99)
    body = ndjson(first, second, first, missing) + b"{\n\n" + ndjson({"import_supplier": "NOBODY"})
    answer = bulk(importer, body, path=PATHS[field])
    assert answer.statuses == ["IMPORTED", "IMPORTED", "IMPORTED", "REFUSED", "REFUSED", "REFUSED"]
    assert [receipt["replayed"] for receipt in answer.receipts] == [False, False, True, False, False, False]
    assert all(receipt["service_identifier"].startswith("A-") for receipt in answer.receipts[:3])
    assert answer.receipts[3]["errors"][0]["code"] == "import_process_does_not_exist"
    assert answer.receipts[4]["code"] == "parse_error"
    assert answer.receipts[5]["errors"][0]["code"] == "invalid_choice"
    assert answer.summary == {"lines": 7, "accepted": 2, "replayed": 1, "refused": 3}
    again = bulk(importer, ndjson(first, second), path=PATHS[field])
    assert again.summary == {"lines": 2, "accepted": 0, "replayed": 2, "refused": 0}
    spelt = json.dumps(first, indent=None, separators=(" ,", " : ")).encode()
    assert bulk(importer, spelt, path=PATHS[field]).summary == {
        "lines": 1,
        "accepted": 0,
        "replayed": 1,
        "refused": 0,
    }
