"""Long jobs with real processes: whoever is killed in one is taken over from, and nobody notices."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from embedded.postgres import PostgresUrls
from eventstore.log.ledger import Ledger
from eventstore.log.long_jobs import workers_and_relays
from tests.support.following import follow
from tests.support.make import an_account
from tests.support.running import cli, free_port, wait_for
from tests.support.sealed_log import ACCOUNTS, Log
from tests.support.staging import SUPPLIER, stage
from workers.process_imports import ImportProcessor


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


class Api:
    """An api process, and somebody who asks it for what the run `r` adds up to."""

    def __init__(self, process: subprocess.Popen[str], port: int, key: str) -> None:
        self.process, self._port, self._key = process, port, key

    def ask(self, query: str = "?spread=true") -> tuple[int, Any]:
        """Status and body; (0, None) while it does not answer."""
        place = f"http://127.0.0.1:{self._port}/v2/data-import/runs/{SUPPLIER}/r/totals/{query}"
        request = urllib.request.Request(place, headers={"Authorization": f"Token {self._key}"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.loads(answer.read())
        except OSError:
            return 0, None


def test_a_run_is_added_up_though_worker_and_api_are_killed(
    ledger: Ledger, database: PostgresUrls, folder: Path
) -> None:
    environment = {
        "DATABASE_URL": database.service,
        "DATABASE_ADMIN_URL": database.admin,
        "REDIS_URL": "",
        "IMPORTLEDGER_DATA_DIR": str(folder),
    }
    accounts = [an_account(SUPPLIER, number) for number in (1, 2, 3)]
    cli("supplier", "create", SUPPLIER, environment=environment)
    made = cli("key", "create", "Testers", "--supplier", SUPPLIER, "--json", environment=environment)
    ImportProcessor(ledger, worker=lambda: 99).process([stage(ledger, account, run="r") for account in accounts])
    follow(ledger)

    @contextmanager
    def serving() -> Iterator[Api]:
        port = free_port()
        with running("api", "--port", str(port), environment=environment) as process:
            yield Api(process, port, json.loads(made.stdout)["api_key"])

    with psycopg.connect(database.admin, autocommit=True) as admin, psycopg.connect(database.admin) as holding:

        def taken_by() -> set[int]:
            rows = admin.execute("SELECT worker FROM long_job_parts WHERE worker <> 0").fetchall()
            return {int(row[0]) for row in rows}

        with running("worker", environment=environment) as worker, serving() as api:
            wait_for(lambda: workers_and_relays(admin) == (1, 1), "a worker and its relay run")
            holding.execute("LOCK TABLE platform.reading IN ACCESS EXCLUSIVE MODE")  # a part that adds up waits for it
            wait_for(lambda: api.ask()[0] == 202 and taken_by() != set(), "the worker has taken the part")
            [lost] = taken_by()
            for process in (worker, api.process):
                process.kill()
                process.wait()
        with running("worker", environment=environment), serving() as api:
            wait_for(lambda: taken_by() - {lost} != set(), "another worker has taken the part over")
            assert api.ask()[0] in (0, 202)
            holding.rollback()
            wait_for(lambda: api.ask("")[0] == 200, "the other api answers")
            answered: list[Any] = []

            def is_added_up() -> bool:
                status, body = api.ask()
                answered.append(body)
                return status == 200

            wait_for(is_added_up, "the other worker has added it up")
            assert answered[-1] == api.ask("")[1]
            assert answered[-1]["accounts"] == len(accounts)
        assert admin.execute("SELECT outcome FROM long_jobs").fetchall() == [("done",)]
