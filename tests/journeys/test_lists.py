"""The lists of a supplier's imports, read while accounts are created and processed."""

import threading
from typing import Any

import pytest

from tests.support.make import an_account, encoded
from tests.support.running import RunningService, processed, wait_for

ACCOUNTS = 150


@pytest.mark.promise(
    "get-v1-data-import-all", "get-v1-data-import-pending", "get-v1-data-import-imported", "lists-history-ndjson-go"
)
def test_the_lists_stay_whole_and_in_order_during_a_load(service: RunningService) -> None:
    importer = service.importer()
    client, supplier = importer.client, importer.supplier
    created: list[str] = []

    def create() -> None:
        for number in range(1, ACCOUNTS + 1):
            account = an_account(supplier, number)
            assert client.create(encoded(account)).status == 201
            created.append(account["external_account_number"])

    creating = threading.Thread(target=create)
    creating.start()
    seen: list[str] = []
    reads = 0
    while len(seen) < ACCOUNTS or reads < 20:
        acknowledged = list(created)
        imported = names(client.imported(supplier).body)
        everything = client.all(supplier).body
        pending = client.pending(supplier).body
        listed = names(everything)
        assert listed[: len(acknowledged)] == acknowledged, "every acknowledged account is listed, in order of creation"
        assert listed[: len(seen)] == seen, "nothing that was listed is lost or moved"
        assert len(set(listed)) == len(listed)
        assert set(imported) <= {
            item["external_account_number"] for item in everything if item["service_account_number"]
        }
        assert all(item["service_account_number"] is None and item["account_created_at"] is None for item in pending)
        assert in_order(names(pending), listed_later := names(client.all(supplier).body)), "pending is a part of all"
        assert in_order(names(client.imported(supplier).body), names(client.all(supplier).body))
        assert listed_later[: len(listed)] == listed
        seen, reads = listed, reads + 1
    creating.join()
    wait_for(lambda: processed(importer) == ACCOUNTS, "every account exists", timeout_s=60)
    assert client.pending(supplier).body == []
    assert names(client.imported(supplier).body) == names(client.all(supplier).body) == created


def names(items: list[dict[str, Any]]) -> list[str]:
    return [item["external_account_number"] for item in items]


def in_order(part: list[str], whole: list[str]) -> bool:
    """Return True if `part` is a subsequence of `whole`."""
    rest = iter(whole)
    return all(name in rest for name in part)
