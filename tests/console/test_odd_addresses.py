"""Whatever an address asks for is answered with a page or refused, and nothing of the console stays in a cache."""

import asyncio
import re

import httpx

from console.listing import NAMES
from console.screens import SCREENS
from console.visit import ROOT
from embedded.postgres import PostgresUrls
from eventstore.aggregates import supplier
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from tests.support.console import console_app, new_session, new_user, stage_account, visitor

PAGES = [screen.path for screen in SCREENS if screen.method == "GET" and screen.roles is not None]
ASKED = {
    "/console/": ("period", "supplier"),
    "/console/imports/": NAMES,
    "/console/imports/NW/A%2F1/": ("as_of",),
    "/console/imports/NW/A%2F1/?from=1&to=1": ("payload",),
    "/console/errors/": ("supplier",),
    "/console/suppliers/": ("supplier-after", "key-after", "after"),
}
"""What pages look for in their addresses; places of lists are asked for in `test_pages`."""
ODD = ("\0", "x" * 3_000, "9" * 40, "'\"[{%s}../<\ud7ff\U0001f480\u202e; DROP TABLE events; --")


def addresses(user: str) -> list[str]:
    names = {"supplier": "NW", "external": "A%2F1", "code": "blank", "name": "throughput", "user_id": user}
    names |= {"key_id": "nothing1"}
    return [ROOT + re.sub(r"\{(\w+)\}", lambda match: names[match[1]], path) for path in PAGES]


def test_no_answer_of_the_console_is_kept_in_a_cache_or_shown_in_a_frame(
    database: PostgresUrls, ledger: Ledger
) -> None:
    user = new_user(ledger, role="operator")
    ledger.execute(supplier.stream_of("NW"), supplier.CreateSupplier(), at=now(), by="operator:test")
    stage_account(ledger, "NW", "A/1")

    async def run() -> None:
        cookies = {"importledger-session": new_session(ledger, user)}
        async with console_app(database) as app, visitor(app, cookies) as browser, visitor(app) as stranger:
            for path in [*addresses(user), f"{ROOT}/nothing/", f"{ROOT}/errors/?after=x"]:
                for answer in (await browser.get(path), await stranger.get(path)):
                    said = answer.headers
                    assert said["cache-control"] == "no-store", path
                    assert "frame-ancestors 'none'" in said["content-security-policy"], path
                    assert (said["x-content-type-options"], said["referrer-policy"]) == ("nosniff", "same-origin")

    asyncio.run(run())


def test_odd_addresses_are_answered_or_refused(database: PostgresUrls, ledger: Ledger) -> None:
    user = new_user(ledger, role="operator")
    ledger.execute(supplier.stream_of("NW"), supplier.CreateSupplier(), at=now(), by="operator:test")
    stage_account(ledger, "NW", "A/1")

    async def run() -> None:
        cookies = {"importledger-session": new_session(ledger, user)}
        async with console_app(database) as app, visitor(app, cookies) as browser:
            for path, names in ASKED.items():
                for odd in ODD:
                    address = httpx.URL(path).copy_merge_params(dict.fromkeys(names, odd))
                    status = (await browser.get(address)).status_code
                    assert status in (200, 400, 404), (path, odd[:9], status)

    asyncio.run(run())
