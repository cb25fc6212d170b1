"""The system's Chromium, as a person uses it: signed in, in some language, scheme and width, with script or without."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, Page, sync_playwright

from eventstore.aggregates.user import UserRole
from eventstore.log.ledger import Ledger
from projections import INLINE
from tests.support.console import signed_in
from tests.support.running import RunningService
from tests.support.whole import admin_url

RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}}


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, without a window. Skips where there is none."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no Chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


def cookies_for(service: RunningService, role: UserRole, *, suppliers: tuple[str, ...] = ("*",)) -> dict[str, str]:
    """The cookies of a fresh user who has signed in to a running service."""
    ledger = Ledger(admin_url(service), views=INLINE)
    try:
        return signed_in(ledger, role=role, suppliers=suppliers)
    finally:
        ledger.close()


class Desk:
    """A page of somebody who has signed in; what went wrong on it is kept in `trouble`."""

    def __init__(self, page: Page, base_url: str) -> None:
        self.page = page
        self.trouble: list[str] = []
        self._base_url = base_url
        page.on("pageerror", lambda error: self.trouble.append(str(error)))
        page.on("dialog", self._asked)
        page.on("console", self._told)

    def _asked(self, dialog: Any) -> None:
        self.trouble.append(dialog.message)
        dialog.dismiss()

    def _told(self, message: Any) -> None:
        if message.type == "error":
            self.trouble.append(message.text)

    def open(self, path: str) -> Page:
        self.page.goto(self._base_url + path)
        return self.page

    def faults(self) -> list[str]:
        """What axe finds on the page, by rule and place."""
        found = Axe().run(self.page, options=RULES).response["violations"]
        return [f"{one['id']}: {node['html'][:200]}" for one in found for node in one["nodes"]]

    @property
    def is_too_wide(self) -> bool:
        """Whether the page has to be moved sideways to be read."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))

    def shoot(self, folder: Path | None, name: str) -> None:
        """Keep a picture of the whole page, where pictures are kept."""
        if folder is not None:
            self.page.screenshot(path=folder / f"{name}.png", full_page=True)


@contextlib.contextmanager
def desk(
    browser: Browser, service: RunningService, cookies: dict[str, str], *, language: str = "en-GB", **options: Any
) -> Iterator[Desk]:
    """Somebody's page. `options` are Playwright's: color_scheme, viewport, java_script_enabled …"""
    context = browser.new_context(locale=language, **({"viewport": {"width": 1280, "height": 900}} | options))
    context.set_default_timeout(30_000)
    context.add_cookies([{"name": name, "value": value, "url": service.base_url} for name, value in cookies.items()])
    try:
        yield Desk(context.new_page(), service.base_url)
    finally:
        context.close()
