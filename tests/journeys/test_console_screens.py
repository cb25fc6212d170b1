"""The screens of the console in a real browser: by roles and names, as a person finds things."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, expect

from tests.support.desk import chromium, cookies_for, desk
from tests.support.folders import temporary_folder
from tests.support.make import an_account, changed, encoded
from tests.support.running import RunningService, start_service, wait_for

CANARY = '"><img src=x onerror=alert(1)><script>alert(2)</script>'
PICTURES = Path(os.environ["IMPORTLEDGER_PICTURES"]) if "IMPORTLEDGER_PICTURES" in os.environ else None
"""Where pictures of every page are kept, where they are."""


class Book(msgspec.Struct, frozen=True):
    """A supplier whose documents are missing, and an account of it that has failed."""

    supplier: str
    failed: str
    documents: Path
    path: str


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    """One of this module's own: what other tests have sent would stand on every page."""
    with temporary_folder() as folder, start_service(folder) as running:
        yield running


@pytest.fixture(scope="module")
def book(service: RunningService) -> Iterator[Book]:
    with temporary_folder() as folder:
        folder.chmod(0o755)
        importer = service.importer()
        # In a process of its own: where a browser runs, asyncio does too.
        settings = (f"documents-root=file://{folder}", "documents-check=require")
        service.program("supplier", "set", importer.supplier, *settings)
        account = changed(an_account(importer.supplier, 1), "Zauberwald", "customers", 0, "family_name")
        hostile = _hostile(an_account(importer.supplier, 2))
        for one in (account, hostile):
            assert importer.client.create(encoded(one)).status == 201
        external = str(account["external_account_number"])

        def has_failed() -> bool:
            return bool(importer.client.status(importer.supplier, external).body["status"] == "ERRORED")

        wait_for(has_failed, "the account has failed")
        yield Book(importer.supplier, external, folder, account["statements"][0]["statement_path"])


def _hostile(account: dict[str, Any]) -> dict[str, Any]:
    """The account with a canary in every text that the importer may choose freely."""
    account["customers"][0]["family_name"] = CANARY
    account["customers"][0]["given_name"] = CANARY
    for name in ("billing_address1", "billing_address2", "sales_channel"):
        account[name] = CANARY
    account["notes"] = [{"body": CANARY}]
    account["metadata"] = [{"key": CANARY, "value": {CANARY: CANARY}}]
    return account


def pages(book: Book) -> dict[str, str]:
    account = f"/console/imports/{book.supplier}/{book.failed}/"
    return {
        "overview": "/console/",
        "imports": f"/console/imports/?supplier={book.supplier}",
        "nothing": "/console/imports/?q=nobody-has-this-name",
        "import": account,
        "past": f"{account}?as_of=2099-01-01",
        "errors": "/console/errors/",
        "code": "/console/errors/invalid_iban/",
        "projections": "/console/projections/",
        "projection": "/console/projections/import_status/",
        "proof": "/console/proof/",
    }


def test_from_an_account_that_is_not_there_to_an_account(service: RunningService, browser: Browser, book: Book) -> None:
    with desk(browser, service, cookies_for(service, "support")) as sitting:
        page = sitting.open("/console/")

        def search() -> None:
            page.get_by_label("Find an account").fill("Zauberwald")
            page.get_by_role("button", name="Find").click()  # step 1

        search()
        deadline = time.monotonic() + 30  # the search follows the log
        while not page.get_by_role("link", name=book.failed).count() and time.monotonic() < deadline:
            search()
        page.get_by_role("link", name=book.failed).click()  # step 2: the reason is there
        expect(page.get_by_role("heading", name="Why it failed: 1 problem")).to_be_visible()
        expect(page.get_by_text("There is no document").first).to_be_visible()
        expect(page.get_by_text("Zauberwald")).to_have_count(0)
        document = book.documents / book.path
        document.parent.mkdir(parents=True, exist_ok=True)
        document.write_text("a statement")
        page.get_by_label("Reason", exact=True).first.fill("the documents are there now")  # step 3
        page.get_by_role("button", name="Retry this import").click()  # step 4
        expect(page.locator("h1 .state")).to_have_text("Processed", timeout=60_000)  # it says so by itself
        assert sitting.trouble == []
        document.unlink()


def test_an_operator_has_a_projection_verified(service: RunningService, browser: Browser, book: Book) -> None:
    with desk(browser, service, cookies_for(service, "operator"), language="de-DE") as sitting:
        page = sitting.open("/console/")
        page.get_by_role("link", name="Projektionen").click()
        page.get_by_role("link", name="import_supplier").click()
        page.get_by_text("Prüfen", exact=True).click()
        page.get_by_role("button", name="Jetzt prüfen").click()
        expect(page.get_by_role("status")).to_contain_text("Es ist angefordert.")
        expect(page.locator("#tasks .state").first).to_have_text("erledigt", timeout=60_000)
        assert sitting.trouble == []


def test_an_auditor_compares_a_checkpoint(service: RunningService, browser: Browser, book: Book) -> None:
    note = service.program("seal").stdout.partition("Verifier key")[0]
    with desk(browser, service, cookies_for(service, "auditor")) as sitting:
        page = sitting.open("/console/proof/")
        page.get_by_label("or its text", exact=True).fill(note)
        page.get_by_role("button", name="Compare").click()
        expect(page.get_by_role("status")).to_contain_text("nothing that it covers was altered")
        assert sitting.trouble == []


@pytest.mark.parametrize(("language", "scheme"), [("en-GB", "light"), ("de-DE", "dark")])
def test_axe_finds_nothing_on_any_page(
    service: RunningService, browser: Browser, book: Book, language: str, scheme: str
) -> None:
    cookies = cookies_for(service, "operator")
    with desk(browser, service, cookies, language=language, color_scheme=scheme) as sitting:
        for name, path in pages(book).items():
            page = sitting.open(path)
            page.evaluate("document.querySelectorAll('main details').forEach((one) => { one.open = true; })")
            sitting.shoot(PICTURES, f"{name}-{language[:2]}-{scheme}")
            assert sitting.faults() == [], name
        assert sitting.trouble == []


def test_every_page_fits_a_narrow_screen_and_works_without_script(
    service: RunningService, browser: Browser, book: Book
) -> None:
    width = {"width": 320, "height": 640}
    with desk(browser, service, cookies_for(service, "operator"), viewport=width) as sitting:
        for name, path in pages(book).items():
            sitting.open(path)
            sitting.shoot(PICTURES, f"{name}-narrow")
            assert not sitting.is_too_wide, name
    with desk(browser, service, cookies_for(service, "support"), java_script_enabled=False) as sitting:
        page = sitting.open("/console/")
        page.get_by_text("The same as a table").click()
        page.get_by_role("link", name="Imports", exact=True).click()
        page.get_by_text("Narrow the list").click()
        page.get_by_label("Supplier").select_option(book.supplier)
        page.get_by_role("button", name="Show", exact=True).click()
        page.get_by_label("All that fit, on every page").check()
        page.get_by_role("button", name="Cancel…").click()
        expect(page.get_by_text("there is nothing to cancel")).to_be_visible()


def test_the_keyboard_reaches_the_account(service: RunningService, browser: Browser, book: Book) -> None:
    with desk(browser, service, cookies_for(service, "support")) as sitting:
        page = sitting.open("/console/imports/")
        page.get_by_label("Find an account").focus()
        page.keyboard.type(book.failed)
        page.keyboard.press("Enter")
        link = page.get_by_role("link", name=book.failed)
        expect(link).to_be_visible()
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.textContent.trim()") == book.failed:
                break
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name=book.failed)).to_be_visible()


def test_nothing_that_an_importer_chose_runs(service: RunningService, browser: Browser, book: Book) -> None:
    number = str(an_account(book.supplier, 2)["external_account_number"])
    with desk(browser, service, cookies_for(service, "support")) as sitting:
        page = sitting.open(f"/console/imports/{book.supplier}/{number}/")
        page.get_by_text("Show personal data", exact=True).first.click()
        page.get_by_label("Reason", exact=True).last.fill(CANARY)
        page.get_by_role("button", name="Show personal data").click()
        expect(page.get_by_text("Personal data is shown to you for half an hour.")).to_be_visible()
        for summary in page.locator("main details:not([open]) > summary").all():
            if summary.is_visible():
                summary.click()
        expect(page.get_by_text("onerror=alert(1)").first).to_be_attached()
        sitting.open(f"/console/imports/?q={number}")
        sitting.open(f"/console/imports/?supplier={book.supplier}")
        assert sitting.trouble == []
