"""An importer's user takes a book of two tables from the upload to the certificate, in Chromium."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from openpyxl import load_workbook
from playwright.sync_api import Browser, Page, expect

from importledger_client.book import book
from tests.support.browser import Desk, chromium, cookies_for, desk, look
from tests.support.folders import temporary_folder
from tests.support.make import an_account
from tests.support.mapped_book import spec_of
from tests.support.running import RunningService, start_service

SUPPLIER = "NORDWIND"
SLOW_MS = 90_000
"""Longest wait for the end of a step."""
ACCOUNTS, RATE_PER_S = 200, 10
"""Size of a book, and rate of a key of its organisation: the push takes long enough to be paused."""


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    with temporary_folder() as folder, start_service(folder) as running:
        running.cli("supplier", "create", SUPPLIER)
        yield running


@pytest.fixture(scope="module")
def browser(service: RunningService) -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, Path]:
    """The customers with a wrong mobile number each in two rows, and the mapping of both tables."""
    account = an_account(SUPPLIER, 1)
    plain = {name: value for name, value in account.items() if name not in ("metadata", "notes", "references")}
    spec = spec_of(plain) | {"external_account_number": "Nr"}
    spec["customers"][0] |= {
        "family_name": "Name",
        "mobile": {"column": "Mobil", "from": "mobil", "on": {"Kunde": "Nr"}},
    }
    mapping = {"account": spec, "files": {"mobil": {"path": "mobil.csv"}}}
    files = {
        "mapping.yaml": yaml.safe_dump(mapping, allow_unicode=True),
        "kunden.csv": "Nr;Name\nK1;Groß\nK2;Böhm\nK3;Weiß\n",
        "mobil.csv": "Kunde;Mobil\nK1;+4915112345678\nK2;49 12\nK3;+4915112345679\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return {name: tmp_path / name for name in files}


def ended(page: Page, section: str, state: str) -> None:
    """Wait until the latest step of a section has this state."""
    expect(page.locator(f"#{section} .state").first).to_have_text(state, timeout=SLOW_MS)


def upload(page: Page, *files: Path) -> None:
    page.get_by_label("Files of up to 2 GB each").set_input_files([*files])
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.locator("#files th[scope=row]", has_text=files[-1].stem[:4]).first).to_be_visible()


def downloaded(page: Page, name: str, to: Path) -> Path:
    with page.expect_download() as download:
        page.get_by_role("link", name=name, exact=True).last.click()
    download.value.save_as(to)
    return to


@pytest.mark.promise("books-in-the-console")
def test_two_tables_are_rehearsed_corrected_in_excel_imported_and_certified(
    service: RunningService, browser: Browser, tables: dict[str, Path], tmp_path: Path
) -> None:
    run = "umzug"
    with desk(browser, service, cookies_for(service, "importer", suppliers=(SUPPLIER,))) as sitting:
        page = sitting.open("/console/books/")
        page.get_by_label("Name of the run").fill(run)
        page.get_by_role("button", name="Create the book").click()
        upload(page, *tables.values())
        address = page.url.partition("#")[0]

        def step(button: str, section: str, state: str) -> None:
            page.get_by_role("button", name=button, exact=True).click()
            ended(page, section, state)

        page.locator("#mapping").get_by_label("File with the accounts").first.select_option("kunden.csv")
        step("Check the mapping", "mapping", "done")
        expect(page.locator("#mapping pre").first).to_contain_text("kunden.csv, row 2: Nr=")
        step("Rehearse", "rehearse", "done, with open points")
        expect(page.locator("#errors tbody tr")).to_have_count(1)
        expect(page.locator("#errors tbody")).to_contain_text("customers[].mobile")
        row = page.locator("#errors tbody a", has_text="row 3")
        row.click()
        expect(page.locator("tr[aria-current]")).to_contain_text("Böhm")
        page.goto(address)
        look_at(sitting, address, service)
        sitting.speak("en")
        page.goto(address)
        step("Write the workbook of failures", "errors", "done")
        workbook = downloaded(page, f"{run}-rehearsal.failures.xlsx", tmp_path / f"{run}-rehearsal.failures.xlsx")
        opened = load_workbook(workbook)
        assert opened["mobil"]["B2"].fill.fgColor.rgb == "FFFFC7CE"
        opened["mobil"]["B2"] = "+4930123456"
        opened.save(workbook)
        upload(page, workbook)
        expect(page.locator("#errors")).to_contain_text("corrected-1.failures.xlsx")
        step("Rehearse", "rehearse", "done")
        expect(page.locator("#errors")).to_contain_text("No account was refused.")
        expect(page.locator("#files")).not_to_contain_text(f"{run}-rehearsal.failures.ndjson")
        step("Go live", "push", "done")
        expect(page.locator("#push .command").first).to_contain_text("kunden.csv corrected-1.failures.xlsx")
        step("Compare", "reconcile", "done")
        expect(page.locator("#reconcile pre")).to_contain_text("BALANCED")
        assert downloaded(page, "Download the certificate", tmp_path / "c.pdf").read_bytes().startswith(b"%PDF")
        certificate = json.loads(downloaded(page, f"{run}.certificate.json", tmp_path / "c.json").read_text())
        assert (certificate["run"], certificate["totals"]["accounts"]) == (run, 3)


@pytest.mark.promise("books-in-the-console")
def test_a_go_live_is_paused_and_resumed_where_it_stopped(
    service: RunningService, browser: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "book.ndjson"
    file.write_bytes(b"".join(entry.body + b"\n" for entry in book(SUPPLIER, ACCOUNTS)))
    words = ("--supplier", SUPPLIER, "--rate", f"{RATE_PER_S}/s", "--json")
    slow = json.loads(service.program("key", "create", "Nordwind Energie", *words).stdout)["api_key"]
    with desk(browser, service, cookies_for(service, "importer", suppliers=(SUPPLIER,))) as sitting:
        page = sitting.open("/console/books/")
        page.get_by_label("Name of the run").fill("angehalten")
        page.get_by_role("button", name="Create the book").click()
        upload(page, file)
        page.get_by_role("button", name="Go live", exact=True).click()
        ended(page, "push", "running")
        page.get_by_role("button", name="Pause", exact=True).click()
        ended(page, "push", "paused")
        service.program("key", "revoke", slow.split("_")[1], "--reason", "rotation")
        page.get_by_role("button", name="Resume", exact=True).click()
        ended(page, "push", "done")
        expect(page.locator("#push pre")).to_contain_text("accepted")
        page.get_by_role("button", name="Compare", exact=True).click()
        ended(page, "reconcile", "done")
        expect(page.locator("#reconcile pre")).to_contain_text("BALANCED")


def test_an_upload_that_is_refused_says_why_and_what_to_do(
    service: RunningService, browser: Browser, tmp_path: Path
) -> None:
    file, odd = tmp_path / "kunden.csv", tmp_path / "-x.csv"
    for path in (file, odd):
        path.write_text("Nr;Name\n")
    cookies = cookies_for(service, "importer", suppliers=(SUPPLIER,))
    with desk(browser, service, cookies, language="de-DE") as sitting:
        page = sitting.open("/console/books/")
        page.locator("#run").fill("abgelehnt")
        page.get_by_role("button", name="Bestand anlegen").click()
        status, button = page.locator("#upload [role=status]"), page.get_by_role("button", name="Hochladen")
        page.locator("#file").set_input_files(odd)
        button.click()
        expect(status).to_have_text(re.compile(r"^Der Name einer Datei darf nicht .* enthalten\.$"))
        page.context.clear_cookies(name=next(iter(cookies)))
        page.locator("#file").set_input_files(file)
        button.click()
        expect(status).to_have_text(
            re.compile("^Ihre Sitzung ist beendet. Laden Sie die Seite neu, melden Sie sich an ")
        )
        page.reload()
        expect(page).to_have_url(re.compile(r"/console/sign-in/\?next=%2Fconsole%2Fbooks%2Fb_"))


def look_at(sitting: Desk, address: str, service: RunningService) -> None:
    """Check the pages of a book in both languages: axe, both schemes, and all widths."""
    path = address.removeprefix(service.base_url)
    pages = {"books": "/console/books/", "book": path, "book-text": f"{path}edit/"}
    pages["book-rows"] = f"{path}rows/?file=kunden.csv&line=2"
    for language in ("en", "de"):
        sitting.speak(language)
        for name, page in pages.items():
            look(sitting, name, language, page)
