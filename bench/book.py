"""A whole book: how fast it goes in by bulk, beside single creates; how cheap sending it again is; and what it takes.

`make bench BOOK=1` runs it. Ratios in one run on one machine; peers in turns.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
import uvloop
from rich.console import Console
from rich.table import Table

from bench.load import SAMPLES, bodies
from bench.service import SUPPLIER, Bench

BULK = "/v2/data-import/accounts/bulk/"
BARS = {
    "bulk, one connection / single creates, 64 connections": 2.0,
    "resume of all that was sent / first time": 3.0,
    "push until all is PROCESSED / sustained processing": 0.95,
}
MAX_MEMORY_MB = 300
CHUNK_BYTES = 256 * 1024


def write_book(path: Path, accounts: int, first: int) -> int:
    """NDJSON of so many accounts with fresh numbers; its size in bytes."""
    samples = bodies(SUPPLIER)
    with path.open("wb") as file:
        for number in range(first, first + accounts):
            body, external = samples[number % SAMPLES]
            file.write(body.replace(external, b"%s-%09d" % (external[:2], number)) + b"\n")
    return path.stat().st_size


async def push(port: int, token: str, path: Path, query: str = "") -> dict[str, Any]:
    """Send the file over one connection, reading receipts all the while; the summary. Raises RuntimeError."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST {BULK}{query} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Token {token}\r\n"
    writer.write(head.encode() + b"Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n")

    async def send() -> None:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    sending = asyncio.create_task(send())
    end = b""
    while received := await reader.read(CHUNK_BYTES):
        end = (end + received)[-4096:]
        if end.endswith(b"0\r\n\r\n"):
            break
    await sending
    writer.close()
    places = [line for line in end.splitlines() if line.startswith(b'{"summary"')]
    if not places:
        raise RuntimeError(f"no summary: {end[-500:]!r}")
    summary: dict[str, Any] = json.loads(places[-1])["summary"]
    if summary["refused"]:
        raise RuntimeError(f"lines were refused: {summary}")
    return summary


class Book:
    """The measurements, on a bench's service."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self._bench = bench
        self._path = folder / "book.ndjson"
        self._first = 500_000_000
        self.memory_mb: dict[str, float] = {}

    def singles(self) -> float:
        return self._bench.creates()

    def bulk(self, accounts: int) -> tuple[float, float]:
        """(accounts a second the first time, and when all of them are sent again)."""
        self._write(accounts)
        with self._bench.server("cli.main", "api", "--port") as port, self._watched("api"):
            first = self._pushed(port, "accepted")
            again = self._pushed(port, "replayed")
        return accounts / first, accounts / again

    def copied(self, accounts: int) -> float:
        """Raw COPY of the rows that the last book has left in the log: accounts a second."""
        with psycopg.connect(self._bench.connections.admin_url, autocommit=True) as connection:
            tables = ("events", "payloads", "payload_keys", "import_status")
            for table in tables:
                connection.execute(f"CREATE TEMP TABLE copy_{table} (LIKE {table} INCLUDING INDEXES)".encode())
            spans = []
            for table in tables:
                order = "position DESC" if table == "events" else "1"
                select = f"COPY (SELECT * FROM {table} ORDER BY {order} LIMIT {accounts}) TO STDOUT"  # noqa: S608
                with connection.cursor().copy(select.encode()) as copy:
                    spans.append(b"".join(bytes(chunk) for chunk in copy))
            started = time.monotonic()
            for table, rows in zip(tables, spans, strict=True):
                with connection.cursor().copy(f"COPY copy_{table} FROM STDIN".encode()) as copy:
                    copy.write(rows)
            return accounts / (time.monotonic() - started)

    def processed(self, accounts: int) -> float:
        """Accounts a second from the first byte sent until the last account is PROCESSED."""
        self._write(accounts)
        bench = self._bench
        with bench.server("cli.main", "api", "--port") as port, bench.role("relay"), bench.role("worker"):
            bench.settle()
            before, started = bench.count_processed(), time.monotonic()
            self._pushed(port, "accepted", "?run=bench")
            while bench.count_processed() - before < accounts:
                if time.monotonic() - started > 900:
                    raise RuntimeError("not everything was processed in 15 minutes")
                time.sleep(0.05)
            return accounts / (time.monotonic() - started)

    def _write(self, accounts: int) -> None:
        self._first += 10_000_000
        write_book(self._path, accounts, self._first)

    def _pushed(self, port: int, what: str, query: str = "") -> float:
        started = time.monotonic()
        summary = uvloop.run(push(port, self._bench.key, self._path, query))
        if summary[what] != summary["lines"]:
            raise RuntimeError(f"all should be {what}: {summary}")
        return time.monotonic() - started

    @contextmanager
    def _watched(self, name: str) -> Iterator[None]:
        """Note the most memory that a child process of ours takes meanwhile, each by itself."""
        stop = threading.Event()

        def watch() -> None:
            while not stop.wait(0.25):
                for process in psutil.Process().children(recursive=True):
                    try:
                        if "postgres" in process.name():
                            continue
                        mb = process.memory_info().rss / 2**20
                    except psutil.NoSuchProcess:
                        continue
                    self.memory_mb[name] = max(self.memory_mb.get(name, 0.0), mb)

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        yield
        stop.set()
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench BOOK=1 ARGS=")
    parser.add_argument("--accounts", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=5.0, help="of single creates in each round")
    parser.add_argument("--rounds", type=int, default=2, help="of each measurement; the best of each counts")
    arguments = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="importledger-bench-", ignore_cleanup_errors=True) as folder:
        bench = Bench(Path(folder), arguments.seconds)
        try:
            book = Book(bench, Path(folder))
            rates = measure(book, bench, arguments.accounts, arguments.rounds)
        finally:
            bench.close()
    for name, rate in rates.items():
        console.print(f"{name:<44} {rate:>10,.0f} accounts/s")
    ratios = {
        "bulk, one connection / single creates, 64 connections": rates["bulk"] / rates["single creates"],
        "resume of all that was sent / first time": rates["resume"] / rates["bulk"],
        "push until all is PROCESSED / sustained processing": rates["push until PROCESSED"] / rates["processing"],
    }
    table = Table("ratio", "measured", "bar", "")
    for name, ratio in ratios.items():
        table.add_row(name, f"{ratio:.2f}", f"{BARS[name]:.3g}", "ok" if ratio >= BARS[name] else "MISSED")
    console.print(table)
    console.print(f"bulk / raw COPY of the same rows: {rates['bulk'] / rates['raw COPY']:.2f} (reported)")
    memory = book.memory_mb["api"]
    console.print(f"most memory of an api process and its helpers, each: {memory:.0f} MB (bar: {MAX_MEMORY_MB} MB)")
    is_kept = memory <= MAX_MEMORY_MB and all(ratio >= BARS[name] for name, ratio in ratios.items())
    sys.exit(0 if is_kept else 1)


def measure(book: Book, bench: Bench, accounts: int, rounds: int) -> dict[str, float]:
    """The best of each rate; peers in turns."""
    best: dict[str, float] = {}

    def note(name: str, rate: float) -> None:
        best[name] = max(best.get(name, 0.0), rate)

    for _ in range(rounds):
        note("single creates", book.singles())
        first, again = book.bulk(accounts)
        note("bulk", first)
        note("resume", again)
        note("raw COPY", book.copied(accounts))
        note("processing", bench.processed(accounts))
        note("push until PROCESSED", book.processed(accounts))
    return best


if __name__ == "__main__":
    main()
