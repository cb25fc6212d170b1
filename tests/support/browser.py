"""A real Chromium, where the machine has one, and what axe says of a page. Screenshots go to build/screenshots."""

import json
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, Page, sync_playwright

from tests.support.running import RunningService

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_LINK = re.compile(r"/console/sign-in/[\w-]{43}/")


@contextmanager
def chromium() -> Iterator[Browser]:
    """The system's Chromium. Skips where there is none. While it runs, nothing else in the process may use asyncio."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no Chromium on the PATH: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, headless=True, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def browser_page(browser: Browser, service: RunningService, **settings: Any) -> Iterator[Page]:
    """A fresh window: `locale`, `color_scheme`, `viewport`, `java_script_enabled` and so on as Playwright has them.

    What a page's scripts say is wrong, a broken policy included, fails the test at the end.
    """
    context = browser.new_context(base_url=service.base_url, **({"locale": "en-GB"} | settings))
    page, complaints = context.new_page(), []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("dialog", lambda dialog: complaints.append("an alert was shown"))
    try:
        yield page
        assert [one for one in complaints if "status of 4" not in one] == []
    finally:
        context.close()


def sign_in(page: Page, service: RunningService, *, role: str = "operator", supplier: str = "*") -> None:
    """Sign a fresh user in by a link, as they would."""
    words = ("--organisation", "Nordwind Energie", "--role", role, "--supplier", supplier, "--json")
    email = f"{role}-{secrets.token_hex(4)}@example.org"
    link = json.loads(service.cli("user", "create", email, *words).stdout)["link"]
    match = _LINK.search(link)
    assert match is not None
    page.goto(match[0])
    page.locator("main button").click()
    page.wait_for_url("**/console/password/")


def axe_violations(page: Page) -> list[str]:
    """What axe finds on the page, a line for each."""
    found = Axe().run(page, options={"runOnly": {"type": "tag", "values": TAGS}}).response["violations"]
    return [f"{one['id']}: {one['help']} {[node['target'] for node in one['nodes']][:3]}" for one in found]


def screenshot(page: Page, name: str) -> None:
    """Keep what the page looks like, for people to look at."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


def overflows(page: Page) -> bool:
    """Whether the page must be scrolled sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth + 1"))
