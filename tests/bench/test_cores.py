"""What N cores do is measured on so many, and told with what Postgres waits for."""

import os
import subprocess
import sys
from collections import Counter

import psycopg

from bench.cores import ON_PROCESSOR, WHAT, OnCores, on_cores, page, waits_watched
from bench.service import Measured
from embedded.postgres import PostgresUrls


def test_what_is_started_within_has_so_many_cores_and_what_comes_after_all() -> None:
    before = os.sched_getaffinity(0)
    counting = [sys.executable, "-c", "import os; print(len(os.sched_getaffinity(0)))"]
    with on_cores(1):
        assert subprocess.run(counting, capture_output=True, text=True, check=True).stdout.strip() == "1"
    assert os.sched_getaffinity(0) == before


def test_what_a_connection_waits_for_is_counted(database: PostgresUrls) -> None:
    seen: Counter[str] = Counter()
    with psycopg.connect(database.admin, autocommit=True) as connection, waits_watched(database.admin, seen):
        while not seen["Timeout: PgSleep"]:
            connection.execute("SELECT pg_sleep(0.2)")


def test_the_page_has_a_line_for_each_number_of_cores() -> None:
    measured = {name: Measured(1_000.0, {"api": 400.0, "worker": 300.0}) for name in WHAT}
    told = [OnCores(number, measured, {ON_PROCESSOR: 3, "LWLock: WALWrite": 1}) for number in (1, 2)]
    lines = page(told, 3).splitlines()
    assert "| 2 | 1,000/s | 1,000/s | 1,000/s |" in lines
    assert "| 1 | 400 | 300 |" in lines
    assert "| 2 | LWLock: WALWrite | 25% |" in lines
