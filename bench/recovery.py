"""How long Postgres takes until it answers again after a kill at full load, by how much of its log it has to read.

    python -m bench.recovery

Accounts are created and brought to PROCESSED as fast as they go until the log has so much behind the beginning of its
last checkpoint. Then the postmaster is killed; it is started again as below `up`. Exit code 1 where it took too long.
"""

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import msgspec
import psycopg

from bench.service import Bench

MOST_S = 5.0
SIZES_MB = (250, 500, 900)
"""With `max_wal_size` at 1 GB the next checkpoint begins at 540 MB and takes as long as the next 480 are written."""
ACCOUNTS = 15_000
"""Brought to PROCESSED one after the other: so many at a time, until there is enough log."""
LOOK_S = 0.02
_SELECT_BEHIND = "SELECT (pg_current_wal_lsn() - redo_lsn)::bigint FROM pg_control_checkpoint()"


class Recovery(msgspec.Struct, frozen=True):
    """Megabytes of log that were to be read, and seconds from the kill to the first connection."""

    read_mb: float
    took_s: float


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench RECOVERY=1 ARGS=", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES_MB, help="megabytes of log to read again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="importledger-bench-", ignore_cleanup_errors=True) as folder:
        bench = Bench(Path(folder), 5.0, has_own_values=True)
        try:
            with bench.watched():
                recoveries = [recovery(bench, size) for size in arguments.sizes]
        finally:
            bench.close()
    print("\n".join(table(recoveries)))
    sys.exit(0 if all(one.took_s <= MOST_S for one in recoveries) else 1)


def recovery(bench: Bench, size_mb: int) -> Recovery:
    """Kill Postgres when it has so much to read again, and wait until it answers. Raises what the load has raised."""
    url, enough = bench.connections.admin_url, threading.Event()
    with ThreadPoolExecutor(1) as threads:
        loading = threads.submit(_load, bench, enough)
        try:
            read_mb = _wait_for_log(url, size_mb, loading)
        finally:
            enough.set()
        os.kill(bench.postmaster, signal.SIGKILL)
        began = time.monotonic()
        while not _answers(url):
            time.sleep(LOOK_S)
        took_s = time.monotonic() - began
        loading.exception()  # whatever it met: its Postgres was killed
    return Recovery(read_mb, took_s)


def _load(bench: Bench, enough: threading.Event) -> None:
    while not enough.is_set():
        bench.processed(ACCOUNTS)


def _wait_for_log(url: str, size_mb: int, loading: "Future[None]") -> float:
    with psycopg.connect(url, autocommit=True) as connection:
        while not loading.done():
            row = connection.execute(_SELECT_BEHIND).fetchone()
            assert row is not None
            if row[0] >= size_mb * 1e6:
                return float(row[0]) / 1e6
            time.sleep(LOOK_S)
    loading.result()
    raise AssertionError("it is loaded until there is enough")


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def table(recoveries: Sequence[Recovery]) -> Iterator[str]:
    """The recoveries as Markdown. Pure."""
    yield "| log to read | until it answers | bar | |\n|---|---|---|---|"
    for one in recoveries:
        said = "ok" if one.took_s <= MOST_S else "MISSED"
        yield f"| {one.read_mb:,.0f} MB | {one.took_s:.1f} s | {MOST_S:g} s | {said} |"


if __name__ == "__main__":
    main()
