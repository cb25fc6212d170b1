"""A worker process without Redis runs the relay as well."""

import threading

import pytest

from embedded.postgres import PostgresUrls
from eventstore.log.ledger import Ledger
from tests.support.make import an_account
from tests.support.running import wait_for
from tests.support.staging import SUPPLIER, stage, status
from workers.run import run_worker


def test_without_redis_one_worker_process_does_it_all(
    ledger: Ledger, database: PostgresUrls, caplog: pytest.LogCaptureFixture
) -> None:
    stop = threading.Event()
    worker = threading.Thread(target=run_worker, args=(ledger, None), kwargs={"stop": stop})
    worker.start()
    streams = [stage(ledger, an_account(SUPPLIER, number)) for number in range(1, 11)]
    wait_for(lambda: {status(ledger, stream) for stream in streams} == {"PROCESSED"}, "all are processed")
    stop.set()
    worker.join(30)
    assert not worker.is_alive()
    assert [record.message for record in caplog.records if record.name.startswith("dramatiq")] == []
