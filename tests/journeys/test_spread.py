"""A long job with real processes: a worker that is killed in a part is taken over from, and nobody notices."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psycopg

from eventstore.log.long_jobs import workers_and_relays
from tests.support.running import wait_for
from tests.support.sealed_log import ACCOUNTS, Log


@contextmanager
def running(verb: str, *words: str, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "cli.main", verb, *words]
    process = subprocess.Popen(
        command, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_worker_that_is_killed_in_a_part_is_taken_over_from(log: Log) -> None:
    environment = {
        "DATABASE_URL": log.urls.service,
        "REDIS_URL": "",
        "IMPORTLEDGER_SEALING_KEY": "A" * 43,
        "IMPORTLEDGER_CHECKPOINTS_URL": log.outside.url,
        "IMPORTLEDGER_DATA_DIR": str(log.folder),
    }

    def taken_by() -> set[int]:
        rows = log.admin.execute("SELECT worker FROM long_job_parts WHERE worker <> 0").fetchall()
        return {int(row[0]) for row in rows}

    def is_up() -> bool:
        return workers_and_relays(log.admin) == (1, 1)

    with psycopg.connect(log.urls.admin) as holding, running("worker", environment=environment) as first:
        wait_for(is_up, "a worker and its relay run")
        holding.execute("LOCK TABLE log_tiles IN ACCESS EXCLUSIVE MODE")  # a part that hashes waits for it
        with running("verify", "--all", "--spread", "--json", environment=environment) as verifying:
            wait_for(lambda: taken_by() != set(), "the worker has taken a part")
            [lost] = taken_by()
            first.kill()
            first.wait()
            with running("worker", environment=environment):
                wait_for(lambda: taken_by() - {lost} != set(), "another worker has taken the part over")
                holding.rollback()
                said, _ = verifying.communicate(timeout=60)
    told = json.loads(said)
    assert (verifying.returncode, told["problems"], told["hashed"]) == (0, [], 3 * ACCOUNTS)
    assert log.admin.execute("SELECT outcome FROM long_jobs").fetchall() == [("done",)]
