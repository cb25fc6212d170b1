"""Suppliers take turns: an account does not wait for all earlier accounts of another supplier."""

import psycopg
import pytest

from tests.support.bulk import bulk, ndjson
from tests.support.folders import temporary_folder
from tests.support.make import an_account, encoded
from tests.support.running import start_service, wait_for
from tests.support.whole import admin_url

MANY = 2_000
_SELECT_PROCESSED = "SELECT supplier FROM events WHERE topic = 'import_processed.v1' ORDER BY position"


@pytest.mark.promise("suppliers-take-turns-account")
def test_a_suppliers_account_is_processed_before_most_that_another_has_sent_earlier() -> None:
    with temporary_folder() as folder, start_service(folder) as service:
        first, second = service.importer(), service.importer()
        [worker] = service.processes("worker")
        worker.suspend()
        try:
            many = ndjson(*(an_account(first.supplier, number) for number in range(1, MANY + 1)))
            assert len(bulk(first, many).receipts) == MANY
            assert second.client.create(encoded(an_account(second.supplier, 1))).status == 201
        finally:
            worker.resume()
        with psycopg.connect(admin_url(service), autocommit=True) as connection:

            def order() -> list[str]:
                return [supplier for (supplier,) in connection.execute(_SELECT_PROCESSED)]

            wait_for(lambda: len(order()) == MANY + 1, "all are processed")
            assert MANY - order().index(second.supplier) >= MANY / 4, "a quarter of the other's come later"
