"""How long Postgres takes until it answers again after a kill at full load, by how much of its log it has to read.

    python -m bench.recovery

Accounts are created and brought to PROCESSED as fast as they go until so much of the log has been written since its
last checkpoint began. Then the postmaster is killed; it is started again as below `up`. Exit code 1 where it took too
long.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from psycopg import Connection

from bench.service import Bench

MOST_S, TOO_LONG_S = 5.0, 120.0
"""Postgres is to answer within the first; after the second nobody waits for it any more."""
SIZES_MB, MOST_MB = (250, 500, 900), 1_000
"""With `max_wal_size` at 1 GB the next checkpoint begins at 540 MB, and takes as long as the next 480 are written."""
ACCOUNTS = 100_000
"""To be brought to PROCESSED in one go: they write twice as much as is ever read again."""
LOOK_S = 0.02
_SELECT_BEHIND = "SELECT (pg_current_wal_lsn() - redo_lsn)::bigint FROM pg_control_checkpoint()"


class Recovery(msgspec.Struct, frozen=True):
    """Megabytes of log that were to be read, and seconds from the kill to the first connection."""

    read_mb: float
    took_s: float


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="make bench RECOVERY=1 ARGS=", description=__doc__)
    parser.add_argument("--sizes", type=_size, nargs="+", default=SIZES_MB, help="megabytes of log to read again")
    sizes = parser.parse_args(arguments).sizes
    with tempfile.TemporaryDirectory(prefix="importledger-bench-", ignore_cleanup_errors=True) as folder:
        bench = Bench(Path(folder), 5.0, has_own_values=True)
        try:
            recoveries = [recovery(bench, size) for size in sizes]
        finally:
            bench.close()
    print("\n".join(table(recoveries)))
    sys.exit(0 if all(one.took_s <= MOST_S for one in recoveries) else 1)


def _size(sent: str) -> int:
    """Raises ArgumentTypeError for more than is ever there."""
    if not sent.isascii() or not sent.isdigit() or not 1 <= int(sent) <= MOST_MB:
        raise argparse.ArgumentTypeError(f"{sent!r} is not 1 to {MOST_MB}: a checkpoint ends before there is more")
    return int(sent)


def recovery(bench: Bench, size_mb: int) -> Recovery:
    """Kill Postgres when it has so much to read again, and wait until it answers.

    Raises RuntimeError when the load ends before there is so much, for whatever it has raised, and when Postgres does
    not come back.
    """
    return bench.watching(lambda: _recovery(bench, size_mb))


def _recovery(bench: Bench, size_mb: int) -> Recovery:
    url = bench.connections.admin_url
    with ThreadPoolExecutor(1) as threads, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        loading = threads.submit(bench.processed, ACCOUNTS)
        while (read_mb := _behind_mb(connection)) < size_mb:
            if loading.done():
                raise RuntimeError(f"{read_mb:.0f} MB of log are all that was written") from loading.exception()
            time.sleep(LOOK_S)
        os.kill(bench.postmaster, signal.SIGKILL)
        took_s = _answers_after_s(url)
        loading.exception()  # its Postgres was killed, of which each of its parts says something else
    return Recovery(read_mb, took_s)


def _behind_mb(connection: Connection[Any]) -> float:
    """What has been written since the last checkpoint that has ended began."""
    row = connection.execute(_SELECT_BEHIND).fetchone()
    assert row is not None
    return float(row[0]) / 1e6


def _answers_after_s(url: str) -> float:
    began = time.monotonic()
    while not _answers(url):
        if time.monotonic() - began > TOO_LONG_S:
            raise RuntimeError(f"Postgres has not come back in {TOO_LONG_S:g} s")
        time.sleep(LOOK_S)
    return time.monotonic() - began


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
