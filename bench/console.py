"""Time every page of the console with many imports: no page may take longer than BAR_MS.

The log of seven suppliers is written directly, and the views are built from it. A page is requested as by an operator
who sees all suppliers, in this process: from the request to the last byte.
"""

import statistics
import time
from collections.abc import Iterator
from contextlib import closing

import msgspec
from rich.console import Console

from bench.history import NAMED, append_in_parallel
from bench.results import Bar
from bench.scale import JOBS, SizedService
from bench.service import OTHER, SUPPLIER, new_bench
from cli.operator import caused_by
from console.presentation.listing import import_address
from embedded.postgres import PostgresUrls
from eventstore.aggregates import supplier
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections import INLINE, PROJECTIONS
from tests.support.console import COOKIE, Browser, console_app, new_session, new_user, send, visitor

BAR_MS = 100.0
SUPPLIERS = (SUPPLIER, OTHER, *(f"BENCH{number}" for number in range(3, 8)))
RUN = "bench"
FAILED = 100
"""Number of an import that has failed."""
REQUESTS = 9


def pages(user_id: str, key_id: str) -> list[str]:
    """Return the addresses of the pages that are timed, of each kind at least one."""
    account = import_address(SUPPLIER, NAMED % FAILED)
    return [
        *("/console/", "/console/?period=week", "/console/imports/", "/console/imports/?status=ERRORED"),
        *(f"/console/imports/?supplier={SUPPLIER}&run={RUN}", "/console/imports/?code=reference_not_unique&fixed=no"),
        *(f"/console/imports/?day={now():%Y-%m-%d}", "/console/imports/decide/?verb=retry&scope=all"),
        *(account, f"{account}?tab=received", f"{account}?tab=platform", f"{account}?tab=attached"),
        *(f"{account}?tab=proof", f"{account}proof.zip", "/console/runs/", f"/console/runs/{SUPPLIER}/{RUN}/"),
        *("/console/errors/", "/console/errors/blank/", "/console/projections/"),
        *("/console/projections/import_status/", "/console/proof/", "/console/proof/checkpoint.note"),
        *("/console/personal-data/", "/console/suppliers/", f"/console/suppliers/{SUPPLIER}/", "/console/users/"),
        *(f"/console/suppliers/{SUPPLIER}/decide/?verb=release&run={RUN}", f"/console/users/{user_id}/"),
        *("/console/keys/", f"/console/keys/{key_id}/", "/console/system/", "/console/tasks/", "/console/password/"),
        *("/console/proposals/", "/console/shortcuts/", "/console/books/"),
    ]


UNTIMED = (
    *("/imports/export/", "/sign-in/", "/sign-in/{token}/", "/openid/", "/openid/answer/"),
    *("/books/{book}/", "/books/{book}/edit/", "/books/{book}/files/{name}/", "/books/{book}/rows/"),
    "/books/{book}/steps/{step}/",
)
"""Pages that are as long as the list that they export, of visitors who have not signed in, or of one book, which read
no import.
"""


def fill(service: SizedService, imports: int, screen: Console) -> None:
    """Write the log of all suppliers, and build the views from it."""
    began = time.monotonic()
    connections = service.bench.connections
    with closing(Ledger(connections.admin_url, views=INLINE)) as ledger:
        for code in SUPPLIERS:
            ledger.execute(supplier.stream_of(code), supplier.CreateSupplier(), at=now(), by=caused_by())
    for number, code in enumerate(SUPPLIERS):
        part = range(1 + number * imports // len(SUPPLIERS), 1 + (number + 1) * imports // len(SUPPLIERS))
        append_in_parallel(connections.database_url, code, part, jobs=JOBS, run=RUN)
    for projection in PROJECTIONS:
        service.rebuild(projection)
        screen.print(f"{time.monotonic() - began:5.0f} s: {projection.name} built")
    service.bench.seal()
    service.bench.settle()


def timed(browser: Browser, path: str) -> Bar:
    """Request a page several times, and return its median time [milliseconds]."""
    times = []
    for _ in range(REQUESTS):
        began = time.perf_counter()
        answer = browser.get(path)
        times.append((time.perf_counter() - began) * 1000)
        if answer.status_code != 200:
            raise RuntimeError(f"{path} answered {answer.status_code}")
    return Bar(path, statistics.median(times), BAR_MS, is_most=True)


def measured(service: SizedService) -> Iterator[Bar]:
    """Yield the time of each page, and of a search by name."""
    connections = service.bench.connections
    urls = PostgresUrls(service=connections.database_url, admin=connections.admin_url)
    with closing(Ledger(connections.admin_url, views=INLINE)) as ledger:
        user_id = new_user(ledger, role="operator")
        cookies = {COOKIE: new_session(ledger, user_id)}
    with console_app(urls) as app, visitor(app, cookies) as browser:
        for path in pages(user_id, service.bench.key.split("_")[1]):
            yield timed(browser, path)
        found = send(browser, "/console/imports/find/", {"q": "Yılmaz"}, at="/console/shortcuts/")
        yield msgspec.structs.replace(timed(browser, found.headers["location"]), name="a search for a name")


def time_pages(imports: int) -> bool:
    """Time all pages with this many imports, print the times, and return whether each is met."""
    screen = Console(soft_wrap=True)
    with new_bench(5.0, has_own_values=True) as bench:
        service = SizedService(bench, imports)
        fill(service, imports, screen)
        rows = list(measured(service))
    screen.print(f"{imports:,} imports of {len(SUPPLIERS)} suppliers, milliseconds of each page:")
    for row in sorted(rows, key=lambda row: -row.measured):
        screen.print(row.line)
    return all(row.is_met for row in rows)
