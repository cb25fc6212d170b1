"""What the console looks like: with many rows and with bars that move, or for its documentation.

    python -m bench.pictures --imports 100000

Fills a service as `bench.console` does, sends accounts to it, has a projection rebuilt meanwhile, and takes pictures
in both languages, schemes and widths, below build/screenshots/large. With --docs it sends some accounts to an empty
service instead, of which some fail, and makes the pictures of docs/console.md.
"""

import argparse
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from PIL import Image
from playwright.sync_api import Browser, Page, ViewportSize, expect
from psycopg.sql import SQL

from bench.console import FAILED, fill
from bench.service import CREATE, SUPPLIER, Bench
from console.listing import import_address
from eventstore.aggregates.supplier import ConfigureSupplier, stream_of
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from importledger_client.book import one_account
from projections import INLINE
from tests.support.browser import MOST_HIGH, NARROW, WIDE, chromium
from tests.support.console import new_session, new_user
from tests.support.importing import ImportClient

INTO = Path(__file__).parents[1] / "build" / "screenshots" / "large"
DOCS = Path(__file__).parents[1] / "docs"
WRITTEN = 1_000
FAILING = 12
HIGH = 900
"""Pixels of a picture in a document."""
LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
LOOKS: tuple[tuple[str, str, ViewportSize], ...] = (("en-GB", "light", WIDE), ("de-DE", "dark", NARROW))
STILL = {
    "imports": "/console/imports/",
    "imports-open": f"/console/imports/?supplier={SUPPLIER}&status=ERRORED&code=reference_not_unique",
    "errors": "/console/errors/",
    "errors-next": '/console/errors/?after=[5,0,"A","a","a"]',
    "import-failed": import_address(SUPPLIER, FAILED),
    "import-processed": import_address(SUPPLIER, "BENCH-0000001"),
    "suppliers": "/console/suppliers/",
    "projections": "/console/projections/",
    "personal-data": "/console/personal-data/",
    "proof": "/console/proof/",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="make pictures")
    parser.add_argument("--imports", type=int, default=100_000)
    parser.add_argument("--docs", action="store_true", help="those of docs/console.md instead")
    arguments = parser.parse_args()
    INTO.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="importledger-pictures-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        bench = Bench(Path(folder), 0)
        try:
            if arguments.docs:
                take_for_docs(bench, Path(folder) / "documents")
            else:
                fill(bench, arguments.imports, written=WRITTEN)
                crowd(bench)
                take(bench)
        finally:
            bench.close()


def crowd(bench: Bench) -> None:
    """Many suppliers, keys, users, failures and refusals, with names as long as they may be."""
    with psycopg.connect(bench.connections.admin_url, autocommit=True) as connection:
        for statement in _CROWD:
            connection.execute(SQL(statement), {"supplier": SUPPLIER})


_CROWD = (
    """
    INSERT INTO import_supplier SELECT (jsonb_populate_record(s, jsonb_build_object(
        'code', CASE mod(n, 3) WHEN 0 THEN 'STADTWERKE_' || n ELSE rpad('GEMEINDEWERKE-' || n || '-', 32, 'X') END,
        'status', (ARRAY['ongoing', 'paused', 'complete'])[mod(n, 3) + 1]))).*
    FROM import_supplier AS s, generate_series(1, 70) AS n WHERE code = %(supplier)s
    """,
    """
    INSERT INTO import_failure_count
    SELECT %(supplier)s, (ARRAY['required', 'blank', 'invalid'])[mod(n, 3) + 1],
           'supply_addresses[].supply_points[].melos[].meters[].registers[].f' || n, kind, mod(7 * n, 400)
    FROM generate_series(1, 130) AS n,
         unnest(ARRAY['open', 'mended', (now() - mod(n, 14) * '1 day'::interval)::date::text]) AS kind
    """,
    """
    INSERT INTO error_statistics
    SELECT %(supplier)s, now()::date - d, 'request', 'unknown_field', 'customers[].f' || n, mod(n * d, 2000) + 1
    FROM generate_series(1, 70) AS n, generate_series(0, 13) AS d
    """,
)


@contextmanager
def desk(browser: Browser, port: int, cookie: str, look: tuple[str, str, ViewportSize]) -> Iterator[Page]:
    language, scheme, size = look
    context = browser.new_context(locale=language, viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
    context.set_default_timeout(60_000)
    url = f"http://127.0.0.1:{port}"
    context.add_cookies([{"name": "importledger-session", "value": cookie, "url": url}])
    page = context.new_page()
    page.goto(f"{url}/console/")
    try:
        yield page
    finally:
        context.close()


def shoot(page: Page, name: str, into: Path = INTO, most_high: int = MOST_HIGH) -> None:
    size = page.viewport_size or WIDE
    high = int(page.evaluate("document.documentElement.scrollHeight"))
    page.set_viewport_size({"width": size["width"], "height": min(high, most_high)})
    page.screenshot(path=into / f"{name}.png")
    page.set_viewport_size(size)


def take(bench: Bench) -> None:
    ledger = Ledger(bench.connections.database_url, views=INLINE)
    cookie = new_session(ledger, new_user(ledger, role="operator", name=f"Anna {LONG[:40]}"))
    ledger.close()
    with chromium() as browser, bench.server("cli.main", "api", "--port") as port:
        for look in LOOKS:
            with desk(browser, port, cookie, look) as page:
                _still(page, f"{look[0][:2]}-{look[1]}-{look[2]['width']}", f"http://127.0.0.1:{port}")
        bench.settle()
        with bench.working(), desk(browser, port, cookie, LOOKS[0]) as page:
            _moving(bench, browser, page, port, cookie)


def _still(page: Page, name: str, url: str) -> None:
    shoot(page, f"overview-{name}")
    for what, path in STILL.items():
        page.goto(url + path)
        shoot(page, f"{what}-{name}")
    page.goto(f"{url}/console/imports/?status=ERRORED")
    page.locator("#scope-all").check()
    page.locator("button[value=retry]").click()
    shoot(page, f"decide-{name}")
    page.goto(f"{url}/console/imports/?status=PROCESSED&q=nobodyhasthisname")
    shoot(page, f"nothing-{name}")


def _moving(bench: Bench, browser: Browser, page: Page, port: int, cookie: str) -> None:
    """While accounts are sent and a projection is verified."""
    url = f"http://127.0.0.1:{port}"
    load = threading.Thread(target=bench._report, args=(port, CREATE), kwargs={"rate": 20, "seconds": 30.0})
    page.goto(f"{url}/console/projections/account_search/")
    for what in ("verify", "rebuild"):
        page.locator(f"form[action$='/{what}/']").evaluate("(one) => { one.closest('details').open = true; }")
    page.locator("#rebuild-reason").fill("the pictures")
    page.locator("#rebuild-reason").press("Enter")
    expect(page.locator("#tasks progress").first).to_be_visible(timeout=60_000)
    load.start()
    shoot(page, "rebuilding-en-light-1280")
    with desk(browser, port, cookie, LOOKS[1]) as other:
        for what in ("system", "imports", "projections/account_search"):
            other.goto(f"{url}/console/{what}/")
            shoot(other, f"moving-{what.partition('/')[0]}-de-dark-320")
        other.goto(f"{url}/console/")
        shoot(other, "moving-overview-de-dark-320")
    for what in ("system", "imports", ""):
        page.goto(f"{url}/console/{what}{'/' if what else ''}")
        shoot(page, f"moving-{what or 'overview'}-en-light-1280")
    load.join()


def _refused(url: str, key: str) -> None:
    """Some accounts with fields that are wrong, of which each is refused for another reason."""
    client = ImportClient(url, key)
    wrong: tuple[dict[str, Any], ...] = (
        {"customers": []}, {"transfer_balance": "none"}, {"supply_adresses": []}, {"transfer_balance": "12,50"},
    )  # fmt: skip
    for number, fields in enumerate(wrong):
        account = one_account(SUPPLIER, 1) | {"external_account_number": f"NO-00300000{number}"} | fields
        if client.create(msgspec.json.encode(account)).status != 400:
            raise RuntimeError(f"{fields} was not refused")
    client.close()


def _make_small(file: Path) -> None:
    """A few dozen colours are enough for a page."""
    with Image.open(file) as picture:
        small = picture.convert("RGB").quantize(64, dither=Image.Dither.NONE)
    small.save(file, optimize=True)


def take_for_docs(bench: Bench, documents: Path) -> None:
    """Some accounts are processed, then documents are missing, and some fail; some are refused."""
    documents.mkdir(mode=0o755)
    ledger = Ledger(bench.connections.database_url, views=INLINE)
    cookie = new_session(ledger, new_user(ledger, role="operator", name="Anna Muster"))
    with (
        chromium() as browser,
        bench.server("cli.main", "api", "--port") as port,
        bench.role("worker"),
        bench.role("relay"),
    ):
        bench.warm_up(port)
        with bench.all_processed(240):
            bench._report(port, CREATE, count=240, rate=20)
        missing = ConfigureSupplier(documents_root=documents.as_uri(), documents_check="require")
        ledger.execute(stream_of(SUPPLIER), missing, at=now(), by="operator:anna")
        bench._report(port, CREATE, count=FAILING, rate=6)
        _refused(f"http://127.0.0.1:{port}", bench.key)
        with desk(browser, port, cookie, LOOKS[0]) as page:
            url = f"http://127.0.0.1:{port}"
            page.goto(f"{url}/console/imports/?status=ERRORED")
            while page.locator("tbody tr").count() < FAILING:
                page.wait_for_timeout(500)
                page.reload()
            page.locator("tbody a").first.click()
            shoot(page, "console-import", DOCS, HIGH)
            page.goto(f"{url}/console/?period=hour")
            shoot(page, "console-overview", DOCS, HIGH)
            for _ in range(90):  # refusals are told once a minute
                page.goto(f"{url}/console/errors/")
                if page.locator("tbody tr").count() > 3:
                    break
                page.wait_for_timeout(2_000)
            shoot(page, "console-errors", DOCS, 700)
    for name in ("import", "overview", "errors"):
        _make_small(DOCS / f"console-{name}.png")
    ledger.close()


if __name__ == "__main__":
    main()
