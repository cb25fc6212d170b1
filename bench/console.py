"""How long the console's pages take where there are many imports: every page, and lists narrowed by everything.

    python -m bench.console --imports 1000000

The first ten thousand accounts are written as the service writes them, and everything is derived from them; the rest
are copies of their rows under other numbers, made by Postgres. Prints the time of each page over HTTP beside the bar,
and ends with exit code 1 where one misses it.
"""

import argparse
import http.client
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import Connection
from psycopg.sql import SQL, Composed, Identifier, Literal
from rich.console import Console
from rich.table import Table

from bench.history import append_all
from bench.service import SUPPLIER, Bench
from console.screens import SCREENS
from console.visit import ROOT
from eventstore.log.ledger import Ledger
from projections import INLINE, PROJECTIONS
from projections.versioning.build import administrator
from projections.versioning.versions import alone, build_version, switch
from tests.support.console import new_session, new_user

BAR_MS = 100.0
WRITTEN = 10_000
TIMES = 15
FAILED = "BENCH-0000100"
"""An account that has failed: every hundredth has."""

COPIED = (
    ("public", "events"),
    ("public", "import_status"),
    ("public", "import_failure"),
    ("public", "account_search"),
    ("platform", "service_account"),
)
COUNTED = ("import_progress", "error_statistics", "import_failure_count")

NARROWED = (
    "",
    "status=PROCESSED",
    "status=PENDING",
    "status=IN_PROGRESS",
    "status=CANCELLED",
    "status=ERRORED&code=reference_not_unique",
    "status=DRY_RUN_ERRORED&code=reference_not_unique",
    "status=PENDING&code=reference_not_unique",
    "code=reference_not_unique",
    "code=reference_not_unique&mended=no",
    "code=reference_not_unique&mended=yes",
    "code=reference_not_unique&mended=yes&status=PENDING",
    "code=invalid_iban&path=payment_instructions[].iban&mended=no",
    "day={day}",
    "day={day}&status=CANCELLED",
    "day={day}&code=reference_not_unique&mended=no",
    "run=nobody-has-this-run",
    "q={name}",
    "q={name}&status=ERRORED",
    "q=nobodyhasthisname",
    "q=10115",
    f"q={FAILED}",
    "q=A-00000077",
)
"""What lists are asked for."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench CONSOLE=1 IMPORTS=")
    parser.add_argument("--imports", type=int, default=1_000_000)
    arguments = parser.parse_args()
    screen = Console()
    with tempfile.TemporaryDirectory(prefix="importledger-bench-", ignore_cleanup_errors=True) as folder:
        bench = Bench(Path(folder), 0)
        try:
            began = time.monotonic()
            fill(bench, arguments.imports)
            screen.print(f"{arguments.imports:,} imports in {time.monotonic() - began:.0f} s")
            measured = measure(bench)
        finally:
            bench.close()
    table = Table("page", "median", "slowest", "")
    for name, times in sorted(measured.items(), key=lambda one: -statistics.median(one[1])):
        median = statistics.median(times)
        table.add_row(name, f"{median:.0f} ms", f"{max(times):.0f} ms", "ok" if median <= BAR_MS else "MISSED")
    screen.print(table)
    sys.exit(0 if all(statistics.median(times) <= BAR_MS for times in measured.values()) else 1)


def fill(bench: Bench, imports: int, *, written: int = WRITTEN) -> None:
    """As many imports as asked for, and everything that is derived from them; so many as the service writes them."""
    written = min(imports, written)
    append_all(bench.connections.database_url, SUPPLIER, range(1, written + 1))
    with administrator(bench.connections.admin_url) as connection:
        for projection in PROJECTIONS:
            with alone(connection, projection):
                version = build_version(bench.connections.admin_url, connection, projection).version
                switch(connection, projection, version)
        _multiply(connection, copies=-(-imports // written) - 1)
        connection.execute("VACUUM ANALYZE")


def _multiply(connection: Connection[Any], *, copies: int) -> None:
    counting = "SELECT count(*), max(position) - min(position) + 1 FROM events WHERE stream LIKE 'import/%'"
    [(number, stride)] = connection.execute(counting).fetchall()
    if number != stride:
        raise RuntimeError("something else was written in between")
    connection.execute("ALTER TABLE events DISABLE TRIGGER USER")
    for schema, table in COPIED:
        connection.execute(_copying(connection, schema, table, stride=stride, copies=copies))
    connection.execute("ALTER TABLE events ENABLE TRIGGER USER")
    for table in COUNTED:
        connection.execute(SQL("UPDATE {} SET number = number * {}").format(Identifier(table), Literal(copies + 1)))
    for nth, status in enumerate(("PENDING", "CANCELLED", "IN_PROGRESS")):
        few = "UPDATE import_status SET status = %s WHERE status = 'PROCESSED' AND created_position %% 30000 = %s"
        connection.execute(few, (status, 1 + 3 * nth))
    connection.execute(_A_WEEK, {"supplier": SUPPLIER})
    for table in ("projection_versions", "checkpoints"):
        connection.execute(SQL("UPDATE {} SET position = (SELECT max(position) FROM events)").format(Identifier(table)))


_A_WEEK = """
INSERT INTO throughput (supplier, span, at, kind, number)
SELECT %(supplier)s, span, date_trunc(span, now()) - n * ('1 ' || span)::interval, kind, 25
FROM (VALUES ('minute', 10080), ('hour', 168)) AS spans (span, number), generate_series(0, number) AS n,
     unnest(ARRAY['received', 'processed', 'failed', 'refused']) AS kind
ON CONFLICT DO NOTHING
"""


def _copying(connection: Connection[Any], schema: str, table: str, *, stride: int, copies: int) -> Composed:
    """Copies of all rows, each under numbers, positions and times of its own."""
    columns = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
        " AND attgenerated = '' ORDER BY attnum",
        (f"{schema}.{table}",),
    ).fetchall()
    names = [name for (name,) in columns]
    return SQL(
        "INSERT INTO {table} ({names}) SELECT {values} FROM {table} AS t, generate_series(1, {copies}) AS copy"
        " WHERE {is_copied}"
    ).format(
        table=Identifier(schema, table),
        names=SQL(", ").join(map(Identifier, names)),
        values=SQL(", ").join(_value(name, stride, copies) for name in names),
        is_copied=SQL("t.stream LIKE 'import/%'" if table == "events" else "true"),
        copies=Literal(copies),
    )


def _value(name: str, stride: int, copies: int) -> Composed:
    column = Identifier("t", name)
    if name in ("stream", "external_account_number"):
        return SQL("replace({}, 'BENCH-', 'B' || copy || '-')").format(column)
    if name == "account_number":
        return SQL("{} || '-' || copy").format(column)
    if name in ("position", "created_position"):
        return SQL("{} + copy * {}::bigint").format(column, Literal(stride))
    if name in ("recorded_at", "created_at", "modified_at", "failed_at"):
        return SQL("{} + copy * {}::interval").format(column, Literal(f"{20 * 3600 / (copies + 1):.3f} s"))
    if name == "command_id":
        return SQL("NULL::text").format()
    return SQL("{}").format(column)


def measure(bench: Bench) -> dict[str, list[float]]:
    """Milliseconds of each page, by its name."""
    ledger = Ledger(bench.connections.database_url, views=INLINE)
    user = new_user(ledger, role="operator")
    cookie = f"importledger-session={new_session(ledger, user)}"
    ledger.close()
    with psycopg.connect(bench.connections.admin_url) as connection:
        [(key,)] = connection.execute("SELECT min(key_id) FROM access_key").fetchall()
        [(name,)] = connection.execute(
            "SELECT split_part(names, ' ', 2) FROM account_search WHERE names ~ '^[a-z]+ [a-z]{4,}' LIMIT 1"
        ).fetchall()
        [(day,)] = connection.execute("SELECT max(created_at)::date::text FROM import_status").fetchall()
    names = {"supplier": SUPPLIER, "external": FAILED, "key_id": key, "user_id": user, "name": "import_status"}
    names |= {"code": "invalid_iban"}
    with bench.server("cli.main", "api", "--port") as port:
        connected = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        measured = {path: _times(connected, path, cookie) for path in _paths(names, {"day": day, "name": name})}
        connected.close()
    return measured


def _paths(names: Mapping[str, str], asked: Mapping[str, str]) -> Iterator[str]:
    """Every page that is registered, and the list of imports by everything."""
    for screen in SCREENS:
        if screen.method == "GET" and screen.roles and not screen.path.endswith(("proof.zip", "export/")):
            yield ROOT + re.sub(r"\{(\w+)\}", lambda match: quote(names[match[1]], safe=""), screen.path)
    for period in ("day", "week"):
        yield f"{ROOT}/?period={period}"
    for query in NARROWED[1:]:
        yield f"{ROOT}/imports/?{query.format_map(asked)}"
    yield f"{ROOT}/imports/?after=1500000"


def _times(connection: http.client.HTTPConnection, path: str, cookie: str) -> list[float]:
    times: Sequence[float] = []
    for _ in range(TIMES + 2):
        began = time.perf_counter()
        connection.request("GET", path, headers={"Cookie": cookie, "Accept-Language": "de"})
        answer = connection.getresponse()
        answer.read()
        times = [*times, (time.perf_counter() - began) * 1000]
        if answer.status != 200:
            return [float("inf")]  # it was given up
    return list(times[2:])  # the first two prepare statements


if __name__ == "__main__":
    main()
