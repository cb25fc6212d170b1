"""The system's Chromium, used as a person does: signed in, with a language, scheme and width, with script or without.

Pictures of all pages are written to build/screenshots, if that folder exists.
"""

import shutil
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import axe_playwright_python  # type: ignore[import-untyped]
import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from eventstore.aggregates.user import UserRole
from eventstore.log.ledger import Ledger
from projections import INLINE
from tests.support.console import signed_in
from tests.support.running import RunningService
from tests.support.whole import admin_url

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
    "--js-flags=--single-threaded",  # a page lives too short for what other threads would compile better
]
WIDE: ViewportSize = {"width": 1280, "height": 900}
HALF: ViewportSize = {"width": 640, "height": 450}
"""The same at 200 % zoom."""
NARROW: ViewportSize = {"width": 320, "height": 640}
MOST_HIGH = 4_000
"""Pixels of a picture: of more, some Chromiums make none."""
SCHEMES: dict[str, tuple[Literal["light", "dark"], Literal["light", "dark"]]]
SCHEMES = {"en": ("light", "dark"), "de": ("dark", "light")}
"""Colour schemes of the wide and the narrow page, by language."""
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text()
_FAULTS = """async (tags) => {
  const found = await axe.run(document, { runOnly: { type: "tag", values: tags }, resultTypes: ["violations"] });
  const named = (violation) => violation.nodes.map((node) => violation.id + ": " + node.html.slice(0, 200));
  return found.violations.flatMap(named);
}"""
_CUT = """() => {
  const width = document.documentElement.clientWidth, faults = [];
  const scrolls = (element) => ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
  const isInBox = ({ parentElement: parent }) => parent && (scrolls(parent) || isInBox(parent));
  if (document.documentElement.scrollWidth > width) faults.push("the page must be moved sideways");
  for (const element of document.querySelectorAll("body *")) {
    const box = element.getBoundingClientRect(), style = getComputedStyle(element);
    if (!box.width || !box.height || !element.checkVisibility()) continue;
    if (element.closest(".unseen, .skip, svg, .chart, option, datalist")) continue;
    const hides = ["hidden", "clip"].includes(style.overflowX) && style.textOverflow !== "ellipsis";
    if (hides && element.scrollWidth > element.clientWidth + 1) faults.push("cut: " + element.outerHTML.slice(0, 160));
    const isBeyond = box.right > width + 1 || box.left < -1;
    if (isBeyond && !isInBox(element)) faults.push("beyond: " + element.outerHTML.slice(0, 160));
  }
  return faults.slice(0, 5);
}"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, without a window. Skips where there is none. Nothing else in the process may use asyncio."""
    expect.set_options(timeout=30_000)  # machines are slow at times
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no Chromium on the PATH: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, headless=True, args=FLAGS)
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
    """A page of a visitor, who may have signed in. Errors of the page are collected in `trouble`."""

    def __init__(self, page: Page, base_url: str) -> None:
        self.page = page
        self.trouble: list[str] = []
        self._base_url = base_url
        self._devtools = page.context.new_cdp_session(page)  # its pictures take half of the processor of Playwright's
        page.on("pageerror", lambda error: self.trouble.append(str(error)))
        page.on("dialog", self._dismiss)
        page.on("console", self._collect_error)

    def _dismiss(self, dialog: Any) -> None:
        self.trouble.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def _collect_error(self, message: Any) -> None:
        if message.type == "error" and "status of 4" not in message.text:
            self.trouble.append(message.text)

    def open(self, path: str) -> Page:
        self.page.goto(self._base_url + path)
        return self.page

    def speak(self, language: str) -> None:
        """From the next page on."""
        cookie = {"name": "importledger-language", "value": language, "url": self._base_url}
        self.page.context.add_cookies([cookie])  # type: ignore[list-item]

    def unfold(self) -> None:
        """Open all details, except branches of trees, which are many and alike."""
        opening = (
            "document.querySelectorAll('main details:not(.tree details)').forEach((branch) => { branch.open = true; })"
        )
        self.page.evaluate(opening)

    def menu(self, *, is_open: bool) -> None:
        """Open or close what stands behind one's name."""
        self.page.evaluate(
            "(is) => { const menu = document.querySelector('.who'); if (menu) menu.open = is; }", is_open
        )

    def faults(self) -> list[str]:
        """Return the violations that axe finds, by rule and place."""
        if not self.page.evaluate("typeof axe !== 'undefined'"):
            self.page.evaluate(_AXE)
        return list(self.page.evaluate(_FAULTS, TAGS))

    def cut(self) -> list[str]:
        """Return elements that are cut off, or make the page scroll sideways."""
        return list(self.page.evaluate(_CUT))

    def tab_to(self, is_there: str) -> None:
        """Press Tab until the claim, in JavaScript about `element`, holds for the focused element."""
        for _ in range(150):
            self.page.keyboard.press("Tab")
            if self.page.evaluate(f"((element) => {is_there})(document.activeElement)"):
                return
        raise AssertionError(f"the keyboard does not reach it: {is_there}")

    def shoot(self, name: str) -> None:
        """Write a picture of the page for people to look at, or of the beginning of a long page."""
        if not SCREENSHOTS.exists():
            return
        high = int(self.page.evaluate("document.documentElement.scrollHeight"))
        part = {"x": 0, "y": 0, "width": (self.page.viewport_size or WIDE)["width"], "height": min(high, MOST_HIGH)}
        options = {"captureBeyondViewport": True, "clip": part | {"scale": 1}, "optimizeForSpeed": True}
        taken = self._devtools.send("Page.captureScreenshot", options)
        (SCREENSHOTS / f"{name}.png").write_bytes(b64decode(taken["data"]))


@contextmanager
def desk(
    browser: Browser,
    service: RunningService,
    cookies: dict[str, str] | None = None,
    *,
    language: str = "en-GB",
    **options: Any,
) -> Iterator[Desk]:
    """Somebody's page. `options` are Playwright's: color_scheme, viewport, java_script_enabled …

    What its scripts say is wrong, or a policy that something breaks, fails the test at the end.
    """
    context = browser.new_context(locale=language, **({"viewport": WIDE} | options))
    context.set_default_timeout(30_000)
    jar = [{"name": name, "value": value, "url": service.base_url} for name, value in (cookies or {}).items()]
    context.add_cookies(jar)  # type: ignore[arg-type]
    try:
        sitting = Desk(context.new_page(), service.base_url)
        yield sitting
        assert sitting.trouble == []
    finally:
        context.close()


def look(sitting: Desk, page_name: str, language: str, path: str) -> None:
    """Check a page in both schemes, at all widths, and with large letters."""
    name = f"{page_name}-{language}"
    page = sitting.open(path)
    sitting.unfold()
    for scheme, size in zip(SCHEMES[language], (WIDE, NARROW), strict=True):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size(size)
        if cut := sitting.cut():
            raise AssertionError((name, size, cut))
        if faults := sitting.faults():
            raise AssertionError((name, scheme, faults))
        sitting.shoot(f"{name}-{scheme}-{size['width']}")
        sitting.menu(is_open=True)
        assert sitting.cut() == [], (name, size, "the menu")
        sitting.menu(is_open=False)
    page.set_viewport_size(HALF)
    assert sitting.cut() == [], (name, "200 % zoom")
    page.evaluate("document.documentElement.style.fontSize = '200%'")
    assert sitting.cut() == [], (name, "letters twice as large")
    assert sitting.trouble == [], name
