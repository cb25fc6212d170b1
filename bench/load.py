"""The load generator, a process of its own: keep-alive connections that send one account after the other.

Prints one JSON line: requests answered, when connecting began, seconds, number of answers by status, the generator's
own CPU time, and with a rate the latencies. A latency begins when a request was due, not when it was sent, so that
delays before sending count too. Times are those of the machine's monotonic clock.
"""

import argparse
import asyncio
import collections
import json
import random
import signal
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import cast

import uvloop

from importledger_client.book import book

CONNECTIONS = 64
SAMPLES = 200
SEED = 7
QUARTER = timedelta(minutes=15)
MOST_READINGS = 10_000
"""Most readings of one register."""

Form = Callable[[int], bytes]
"""Return the value of a field for the account with this number."""


def bodies(supplier: str) -> list[tuple[bytes, bytes]]:
    """Return (JSON, account number in it) of sample accounts. Each request replaces the number."""
    entries = book(supplier, SAMPLES, seed=SEED)
    return [(entry.body, entry.external_account_number.encode()) for entry in entries]


def own_values(body: bytes) -> list[tuple[bytes, Form]]:
    """Return values that no two real accounts share (market locations, meters, an e-mail address), and their forms."""
    account = json.loads(body)
    points = [point for address in account["supply_addresses"] for point in address["supply_points"]]
    values: list[tuple[str, Form]] = [(point["identifier"], market_location) for point in points]
    meters = [meter["meter_number"] for point in points for melo in point["melos"] for meter in melo["meters"]]
    values += [(meter, partial(_meter, meter[:4])) for meter in meters]
    values += [(account["customers"][0]["email"], b"kunde%d@example.com".__mod__)]
    return [(value.encode(), form) for value, form in values]


def large(body: bytes, size: int) -> bytes:
    """Return the account with so many quarter-hourly readings that it has about `size` bytes."""
    account = json.loads(body)
    meter = account["supply_addresses"][0]["supply_points"][0]["melos"][0]["meters"][0]
    register = meter["registers"][0]
    last = register["readings"][-1]
    count = size // len(json.dumps(last))
    times = (datetime.fromisoformat(last["read_at"]) - number * QUARTER for number in range(count))
    readings = [last | {"read_at": time.isoformat()} for time in times]
    meter["registers"] = [
        register | {"obis_code": f"1-0:1.8.{index}", "readings": readings[first : first + MOST_READINGS]}
        for index, first in enumerate(range(0, count, MOST_READINGS))
    ]
    return json.dumps(account).encode()


def market_location(number: int) -> bytes:
    """Return a market location with its check digit, a different one for each number below 10^9."""
    digits = b"%d" % (4 * 10**9 + 6 * number)
    weighted = sum(digits[0::2]) + 2 * sum(digits[1::2]) - 15 * ord("0")
    return b"%s%d" % (digits, -weighted % 10)


def _meter(kind: str, number: int) -> bytes:
    return b"%b%d" % (kind.encode(), 10**9 + 9 * number)


def permuted(number: int) -> int:
    """Return a number below 10^9, a different one for each. Consecutive numbers are mapped far apart."""
    return number * 387_420_489 % 10**9


class Sender(asyncio.Protocol):
    """One connection: sends the next request when the last is answered, until the work is done."""

    def __init__(self, load: "Load") -> None:
        self._load = load
        self._buffer = b""
        self._due = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end].lower()
        start = head.find(b"content-length:")
        length = int(head[start + 15 :].split(b"\r\n", 1)[0])
        if len(self._buffer) < end + 4 + length:
            return
        self._load.statuses[self._buffer[9:12].decode()] += 1
        if self._load.has_rate:
            self._load.latencies.append(time.monotonic() - self._due)
        self._buffer = b""
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._load.closed()

    def _send(self) -> None:
        self._due = self._load.next_due()
        wait_s = self._due - time.monotonic()
        if wait_s > 0:
            asyncio.get_running_loop().call_later(wait_s, self._send_now)
        else:
            self._send_now()

    def _send_now(self) -> None:
        request = self._load.next_request()
        if request is None:
            self._transport.close()
        else:
            self._transport.write(request)


class Load:
    """Work of all connections: it ends after a time, or after a number of requests."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._bodies = bodies(arguments.supplier)
        common = f"HTTP/1.1\r\nHost: localhost\r\nAuthorization: Token {arguments.token}\r\n"
        headers = f"{common}Content-Type: application/json\r\nContent-Length: "
        self._create = f"POST {arguments.path} {headers}".encode()
        self._read = f"GET {arguments.path}%b/ {common}\r\n".encode()
        self._deadline = time.monotonic() + arguments.seconds
        self._left = arguments.count or 10**9
        self._every_s = 1 / arguments.rate if arguments.rate else 0.0
        self._next = time.monotonic()
        self._number = arguments.first
        self._reads = range(arguments.first + 1, arguments.first + 1 + arguments.reads)
        self._named = arguments.named.encode()
        self._own = [own_values(body) if arguments.own_values else [] for body, _ in self._bodies]
        self._open = CONNECTIONS
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.statuses: collections.Counter[str] = collections.Counter()
        self.latencies: list[float] = []

    @property
    def has_rate(self) -> bool:
        return self._every_s > 0

    def next_due(self) -> float:
        """Return when the next request is due [monotonic clock]; 0 without a rate. A late request is sent at once."""
        self._next += self._every_s
        return self._next if self.has_rate else 0.0

    def stop(self) -> None:
        self._deadline = 0.0

    def next_request(self) -> bytes | None:
        if self._left <= 0 or time.monotonic() >= self._deadline:
            return None
        self._left -= 1
        self._number += 1
        number = random.choice(self._reads) if self._reads else self._number
        body, external = self._bodies[number % SAMPLES]
        numbered = self._named % number if self._named else b"%s-%09d" % (external[:2], number)
        if self._reads:
            return self._read % numbered
        fresh = body.replace(external, numbered)
        for index, (value, form) in enumerate(self._own[number % SAMPLES]):
            fresh = fresh.replace(value, form(permuted(8 * number + index)))
        return b"%s%d\r\n\r\n%s" % (self._create, len(fresh), fresh)

    def closed(self) -> None:
        """Count a connection that is closed."""
        self._open -= 1
        if not self._open:
            self.done.set_result(None)


async def run(arguments: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    load = Load(arguments)
    loop.add_signal_handler(signal.SIGTERM, load.stop)
    started, used_s = time.monotonic(), time.process_time()
    await asyncio.gather(
        *(loop.create_connection(partial(Sender, load), "127.0.0.1", arguments.port) for _ in range(CONNECTIONS))
    )
    await load.done
    seconds = time.monotonic() - started
    report = {"requests": load.statuses.total(), "began_at": started, "seconds": seconds, "statuses": load.statuses}
    print(json.dumps(report | {"processor_s": time.process_time() - used_s, "latency_ms": percentiles(load.latencies)}))


def percentiles(latencies: list[float]) -> dict[str, float]:
    """Return the percentiles p50, p90, p99 and max of latencies in seconds, in milliseconds."""
    if not latencies:
        return {}
    in_order = sorted(latencies)
    places = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return {name: 1000 * in_order[min(len(in_order) - 1, int(part * len(in_order)))] for name, part in places.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--path", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--supplier", default="NORDWIND")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--rate", type=float, default=0.0, help="requests a second; as many as can be by default")
    parser.add_argument("--first", type=int, default=0, help="the number after which accounts are numbered")
    parser.add_argument("--reads", type=int, default=0, help="read below PATH instead, of so many accounts by chance")
    parser.add_argument("--named", default="", help="the form of accounts' numbers, such as BENCH-%%07d")
    parser.add_argument(
        "--own-values", action="store_true", help="no two accounts with one supply point, meter, address"
    )
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
