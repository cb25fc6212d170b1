"""A whole book: how fast it goes in by bulk, beside single creates; how cheap sending it again is; and what it takes.

`make bench BOOK=1` runs it in minutes, with `ARGS="--accounts 100000"` over night as the bars are meant, with
a book of 1 GB. Ratios in one run on one machine; peers in turns.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import uvloop
from rich.console import Console
from rich.table import Table

from bench.importing import FLAT_MB, Importing, Pushed, kills_are_survived
from bench.load import SAMPLES, bodies
from bench.service import SUPPLIER, Bench

BULK = "/v2/data-import/accounts/bulk/"
BARS = {
    "bulk, one connection / single creates, 64 connections": 2.0,
    "resume of all that was sent / first time": 3.0,
    "push until all is PROCESSED / sustained processing": 0.95,
}
MAX_MEMORY_MB = {"client": 150, "api": 300, "helper": 300, "relay": 300, "worker": 300}
WARMING = 2_000
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
        self.by_importbook = Importing(bench, folder)

    def singles(self) -> float:
        return self._bench.creates()

    def bulk(self, accounts: int) -> tuple[float, float]:
        """(accounts a second the first time, and when all of them are sent again)."""
        with self._bench.server("cli.main", "api", "--port") as port:
            self._write(WARMING)  # helpers are started when there is something to do
            self._pushed(port, "accepted", "?mode=validate")
            self._write(accounts)
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

    def importing(self, accounts: int) -> Pushed:
        """A fresh book by importbook: the push, until all is PROCESSED, and again."""
        self._write(accounts)
        return self.by_importbook.pushed(self._path, accounts)

    def _write(self, accounts: int) -> None:
        self._first += 10_000_000
        write_book(self._path, accounts, self._first)

    def _pushed(self, port: int, what: str, query: str = "") -> float:
        started = time.monotonic()
        summary = uvloop.run(push(port, self._bench.key, self._path, query))
        if summary[what] != summary["lines"]:
            raise RuntimeError(f"all should be {what}: {summary}")
        return time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench BOOK=1 ARGS=", description=__doc__)
    parser.add_argument("--accounts", type=int, default=5_000, help="of the book; the bars speak of 100,000")
    parser.add_argument("--seconds", type=float, default=5.0, help="of single creates in each round")
    parser.add_argument("--rounds", type=int, default=2, help="of each measurement; the best of each counts")
    parser.add_argument("--kills", type=int, default=10, help="during a push of a fifth of the accounts; 0 for none")
    parser.add_argument("--seed", type=int, default=1, help="of what is killed, and when")
    arguments = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="importledger-bench-", ignore_cleanup_errors=True) as folder:
        bench = Bench(Path(folder), arguments.seconds)
        try:
            book = Book(bench, Path(folder))
            rates = measure(book, bench, arguments.accounts, arguments.rounds)
            found = book.by_importbook.faults_found()
        finally:
            bench.close()
    is_whole = not arguments.kills or kills_are_survived(arguments.accounts // 5, arguments.kills, arguments.seed)
    for name, rate in rates.items():
        console.print(f"{name:<44} {rate:>10,.0f} accounts/s")
    rows = [*_ratios(rates), *_memory(book.by_importbook)]
    rows += [
        (f"reconcile finds {name}", "found" if is_found else "not found", "found", is_found)
        for name, is_found in found.items()
    ]
    if arguments.kills:
        said = "BALANCED" if is_whole else "not balanced"
        rows.append(
            (f"{arguments.kills} kills during a push of {arguments.accounts // 5:,}", said, "BALANCED", is_whole)
        )
    table = Table("what", "measured", "bar", "")
    for name, measured, bar, is_kept in rows:
        table.add_row(name, measured, bar, "ok" if is_kept else "MISSED")
    console.print(table)
    console.print(f"bulk / raw COPY of the same rows: {rates['bulk'] / rates['raw COPY']:.2f} (reported)")
    sys.exit(0 if all(is_kept for *_, is_kept in rows) else 1)


Row = tuple[str, str, str, bool]
"""What is measured, the figure, the bar, and whether it is kept."""


def _ratios(rates: dict[str, float]) -> Iterator[Row]:
    ratios = {
        "bulk, one connection / single creates, 64 connections": rates["bulk"] / rates["single creates"],
        "resume of all that was sent / first time": rates["push again"] / rates["push"],
        "push until all is PROCESSED / sustained processing": rates["push until PROCESSED"] / rates["processing"],
    }
    for name, ratio in ratios.items():
        yield name, f"{ratio:.2f}", f"≥ {BARS[name]:.3g}", ratio >= BARS[name]


def _memory(importing: Importing) -> Iterator[Row]:
    for name, bar in MAX_MEMORY_MB.items():
        most, growth = importing.most_memory(name), importing.growth(name)
        measured = f"{most:.0f} MB, {growth:.0f} of it late"
        yield f"memory of {name}", measured, f"≤ {bar} MB, flat", most <= bar and growth <= FLAT_MB


def measure(book: Book, bench: Bench, accounts: int, rounds: int) -> dict[str, float]:
    """The best of each rate; peers in turns."""
    best: dict[str, float] = {}

    def note(name: str, rate: float) -> None:
        best[name] = max(best.get(name, 0.0), rate)

    for _ in range(rounds):
        note("single creates", book.singles())
        first, again = book.bulk(accounts)
        note("bulk", first)
        note("bulk again", again)
        note("raw COPY", book.copied(accounts))
        halves = accounts // 2, accounts - accounts // 2
        before = halves[0] / bench.processed(halves[0]).rate
        pushed = book.importing(accounts)
        after = halves[1] / bench.processed(halves[1]).rate  # a larger database is a little slower, for everybody
        note("processing", accounts / (before + after))
        note("push", pushed.first)
        note("push until PROCESSED", pushed.processed)
        note("push again", pushed.again)
    return best


if __name__ == "__main__":
    main()
