"""The console in a real Chromium: by keyboard, without script, on a small screen, in both languages and schemes."""

import secrets
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser import axe_violations, browser_page, chromium, overflows, screenshot, sign_in
from tests.support.running import RunningService

PAGES = {
    "personal-data": "/console/personal-data/",
    "suppliers": "/console/suppliers/",
    "system": "/console/system/",
    "password": "/console/password/",
    "nothing": "/console/nothing/",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.mark.parametrize(("locale", "scheme"), [("de-DE", "dark"), ("en-GB", "light")])
def test_axe_finds_nothing_on_any_page_and_nothing_is_cut_off(
    browser: Browser, service: RunningService, locale: str, scheme: str
) -> None:
    service.importer()
    settings = {"locale": locale, "color_scheme": scheme}
    with browser_page(browser, service, viewport={"width": 1280, "height": 800}, **settings) as page:
        page.goto("/console/sign-in/")
        assert axe_violations(page) == []
        screenshot(page, f"sign-in-{locale[:2]}-{scheme}")
        sign_in(page, service)
        for name, path in PAGES.items():
            page.goto(path)
            assert axe_violations(page) == [], name
            assert not overflows(page), name
            screenshot(page, f"{name}-{locale[:2]}-{scheme}")


def test_at_320_pixels_everything_is_there(browser: Browser, service: RunningService) -> None:
    service.importer()
    with browser_page(browser, service, viewport={"width": 320, "height": 640}) as page:
        sign_in(page, service)
        for name, path in PAGES.items():
            page.goto(path)
            assert not overflows(page), name
            screenshot(page, f"{name}-320")


def test_an_operator_sets_up_a_supplier_without_script(browser: Browser, service: RunningService) -> None:
    with browser_page(browser, service, java_script_enabled=False) as page:
        sign_in(page, service)
        page.get_by_label("New password").fill("three plain words")
        page.get_by_label("Once more").fill("three plain words")
        page.get_by_role("button", name="Keep this password").click()
        expect(page.get_by_role("status")).to_contain_text("Your password is set.")
        page.get_by_role("navigation").get_by_role("link", name="Suppliers", exact=True).click()
        page.get_by_text("Set up a supplier").click()
        page.get_by_label("Code", exact=True).fill(f"OHNE{secrets.token_hex(4)}")
        page.get_by_role("button", name="Set up").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("OHNE")
        page.get_by_role("button", name="Deutsch").click()
        expect(page.get_by_role("heading", name="Einstellungen")).to_be_visible()


def test_an_auditor_signs_in_and_out_by_keyboard_alone(browser: Browser, service: RunningService) -> None:
    with browser_page(browser, service) as page:
        sign_in(page, service, role="auditor")
        page.goto("/console/")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()
        summary = page.locator(".who summary")
        summary.focus()
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Sign out").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        page.goto("/console/personal-data/")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_support_finds_no_page_of_operators(browser: Browser, service: RunningService) -> None:
    with browser_page(browser, service) as page:
        sign_in(page, service, role="support")
        page.goto("/console/")
        expect(page.get_by_role("navigation").get_by_role("link", name="Suppliers", exact=True)).to_be_visible()
        expect(page.get_by_role("navigation").get_by_role("link", name="System", exact=True)).to_have_count(0)
        page.goto("/console/system/")
        expect(page.get_by_role("heading", name="That is not allowed")).to_be_visible()
