"""The console in Chromium: both languages and colour schemes, all widths, by keyboard and without script.

All values that importers and users choose contain markup.
"""

import json
import re
import secrets
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Page, Position, Route, expect

from tests.support.browser import NARROW, SCHEMES, WIDE, chromium, cookies_for, desk, look
from tests.support.folders import temporary_folder
from tests.support.make import an_account, changed, encoded
from tests.support.running import RunningService, start_service, wait_for
from workers.operations import MAX_NAME

CANARY = '"><img src=x onerror=alert(1)><script>alert(2)</script>'
LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 2


RUN = "monday"


class Book(msgspec.Struct, frozen=True):
    """A supplier whose accounts have failed because documents are missing. One account has markup in its texts."""

    supplier: str
    failed: str
    hostile: str
    stays: str
    """An account whose document no test stores."""
    refused: str
    documents: Path
    path: str
    key_id: str
    user_id: str
    sign_in: str
    """Address of the operator's first sign-in."""
    checkpoint: str
    """The note of a checkpoint that an auditor keeps."""


@pytest.fixture(scope="module")
def browser(book: Book) -> Iterator[Browser]:
    """Opened after the book, since verbs of this process cannot run beside the browser's event loop."""
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def hostile_reasons(service: RunningService, browser: Browser, book: Book) -> None:
    """Personal data of the hostile account was shown and its views were rebuilt, with markup in the reasons."""
    with desk(browser, service, cookies_for(service, "operator")) as sitting:
        page = sitting.open(address(book, book.hostile))
        page.locator("details.do", has=page.locator("#heal-reason")).locator("summary").click()
        page.locator("#heal-reason").fill(CANARY)
        page.locator("#heal-reason").press("Enter")
        expect(page.get_by_role("status").first).to_be_visible()
        page.locator("details.do", has=page.locator("#shown-reason")).locator("summary").click()
        page.locator("#shown-reason").fill(CANARY)
        page.locator("#shown-reason").press("Enter")
        sitting.unfold()
        expect(page.get_by_text("onerror=alert(1)").first).to_be_attached()


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    """A service of this module alone, since its pages show all accounts."""
    with temporary_folder() as folder, start_service(folder) as running:
        yield running


@pytest.fixture(scope="module")
def book(service: RunningService) -> Iterator[Book]:
    with temporary_folder() as folder:
        folder.chmod(0o755)
        importer = service.importer()
        settings = (f"documents-root=file://{folder}", "documents-check=require")
        service.cli("supplier", "set", importer.supplier, *settings)
        account = changed(an_account(importer.supplier, 1), "Zauberwald", "customers", 0, "family_name")
        hostile = _hostile(an_account(importer.supplier, 2))
        stays = changed(an_account(importer.supplier, 4), "Nebelhorn", "customers", 0, "family_name")
        for body in (account, hostile, stays):
            assert importer.client.create(encoded(body), RUN).status == 201
        refused = an_account(importer.supplier, 3) | {"external_account_number": f"R{CANARY}", CANARY: 1}
        assert importer.client.create(encoded(refused)).status == 400
        external, other, third = (str(body["external_account_number"]) for body in (account, hostile, stays))
        words = ("--organisation", "Nordwind", "--role", "support", "--supplier", "*", "--json")
        user = json.loads(
            service.cli("user", "create", "canary@example.org", "--name", (CANARY + LONG)[:MAX_NAME], *words).stdout
        )
        organisation = (CANARY + LONG).replace("/", "")[:120]
        key = json.loads(service.cli("key", "create", organisation, "--supplier", importer.supplier, "--json").stdout)
        service.cli("supplier", "create", "X" * 32)
        service.cli("supplier", "status", importer.supplier, "ongoing", "--reason", CANARY, check=False)
        service.cli("supplier", "status", "X" * 32, "paused", "--reason", CANARY)
        words = ("--organisation", "Nordwind", "--role", "operator", "--supplier", "*", "--json")
        operator = json.loads(service.cli("user", "create", "operator@example.org", *words).stdout)
        link = re.search(r"/console/sign-in/[\w-]{43}/", operator["link"])
        assert link is not None
        checkpoint = service.cli("seal").stdout.partition("Verifier key")[0]

        def has_failed() -> bool:
            found = (
                importer.client.status(importer.supplier, number).body["status"] for number in (external, other, third)
            )
            return all(status == "ERRORED" for status in found)

        wait_for(has_failed, "the accounts have failed")
        yield Book(
            importer.supplier, external, other, third, str(refused["external_account_number"]), folder,
            account["statements"][0]["statement_path"], key["api_key"].split("_")[1], user["user_id"],
            link[0], checkpoint,
        )  # fmt: skip


def _hostile(account: dict[str, Any]) -> dict[str, Any]:
    """The account with markup in every free text."""
    account["customers"][0]["family_name"] = CANARY
    account["customers"][0]["given_name"] = CANARY
    for name in ("billing_address1", "billing_address2", "sales_channel"):
        account[name] = CANARY
    account["external_account_number"] = f"H{CANARY}"
    account["statements"][0]["statement_path"] = f"{CANARY}.pdf"
    account["notes"] = [{"body": CANARY}]
    account["metadata"] = [{"key": CANARY, "value": {CANARY: CANARY}}]
    return account


def address(book: Book, external: str) -> str:
    from console.presentation.listing import import_address

    return import_address(book.supplier, external)


def pages(book: Book) -> dict[str, str]:
    """Addresses of all pages, by the name of their screenshots."""
    account = address(book, book.failed)
    return {
        "overview": "/console/?period=day",
        "imports": f"/console/imports/?supplier={book.supplier}",
        "imports-found": "/console/imports/?run=none",
        "import": account,
        "import-hostile": address(book, book.hostile),
        "import-past": f"{account}?as_of={datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "import-received": f"{account}?tab=received",
        "import-platform": f"{account}?tab=platform",
        "import-proof": f"{account}?tab=proof",
        "import-attached": f"{account}?tab=attached",
        "import-refused": address(book, book.refused),
        "runs": "/console/runs/",
        "run": f"/console/runs/{book.supplier}/{RUN}/",
        "errors": "/console/errors/",
        "error-code": "/console/errors/invalid_iban/",
        "projections": "/console/projections/",
        "projection": "/console/projections/import_status/",
        "proof": "/console/proof/",
        "personal-data": "/console/personal-data/",
        "suppliers": "/console/suppliers/",
        "users": "/console/users/",
        "keys": "/console/keys/",
        "shortcuts": "/console/shortcuts/",
        "supplier": f"/console/suppliers/{'X' * 32}/",
        "key": f"/console/keys/{book.key_id}/",
        "user": f"/console/users/{book.user_id}/",
        "system": "/console/system/",
        "tasks": "/console/tasks/",
        "password": "/console/password/",
        "nothing": "/console/nothing/",
    }


def found(page: Page, text: str, number: str) -> None:
    """Search until the account is found: the search can lag behind the log."""
    deadline = time.monotonic() + 30
    while True:
        page.get_by_label("Find an account").fill(text)
        page.get_by_role("button", name="Find").click()
        if page.get_by_role("link", name=number).count() or time.monotonic() > deadline:
            return


def mend(book: Book) -> Path:
    """Store the missing document of the account."""
    document = book.documents / book.path
    document.parent.mkdir(parents=True, exist_ok=True)
    document.write_text("a statement")
    return document


@pytest.mark.promise("pages-without-script")
@pytest.mark.usefixtures("hostile_reasons")
@pytest.mark.parametrize("language", SCHEMES)
def test_every_page_is_for_everybody_and_nothing_that_others_chose_runs(
    service: RunningService, browser: Browser, book: Book, language: str
) -> None:
    """Runs axe in both schemes. Nothing is cut off at 1280 and 320 pixels, with 200 % zoom, and with large letters."""
    with desk(browser, service, cookies_for(service, "operator")) as sitting:
        sitting.speak(language)
        for name, path in pages(book).items():
            look(sitting, name, language, path)
        sitting.page.context.clear_cookies(name="importledger-session")
        look(sitting, "sign-in", language, "/console/sign-in/")


def test_support_finds_why_in_three_steps_and_mends_in_five(
    service: RunningService, browser: Browser, book: Book
) -> None:
    with desk(browser, service, cookies_for(service, "support")) as sitting:
        page = sitting.open("/console/")
        found(page, "zauberwald", book.failed)  # step 1
        page.get_by_role("link", name=book.failed).click()  # step 2: the reason is there
        expect(page.get_by_role("heading", name="Cause (1 problem)")).to_be_visible()
        expect(page.get_by_text("There is no document").first).to_be_visible()
        expect(page.get_by_text("Zauberwald")).to_have_count(0)
        document = mend(book)
        page.get_by_label("Reason", exact=True).first.fill("the documents are there now")  # step 3
        page.get_by_role("button", name="Retry this import").click()  # step 4
        expect(page.locator("h1 .state")).to_have_text("Processed", timeout=60_000)  # it says so by itself
        expect(page.get_by_role("button", name="Cancel this import")).to_have_count(0)
        page.get_by_role("navigation").get_by_role("link", name="Platform records").click()
        expect(page.locator("#platform-head + details, #platform-head ~ details").first).to_be_visible()
        document.unlink()


def test_a_live_part_that_is_refreshed_keeps_the_focus(service: RunningService, browser: Browser, book: Book) -> None:
    with desk(browser, service, cookies_for(service, "operator")) as sitting:
        page = sitting.open("/console/projections/")
        page.get_by_role("link", name="import_failure").focus()
        page.evaluate("document.activeElement.dataset.before = 'yes'")
        page.evaluate(REFRESH)
        expect(page.locator("[data-before]")).to_have_count(0)
        expect(page.get_by_role("link", name="import_failure")).to_be_focused()
        page.get_by_role("region", name="Views").focus()
        page.evaluate("document.activeElement.dataset.before = 'yes'")
        page.evaluate(REFRESH)
        expect(page.locator("[data-before]")).to_have_count(0)
        page.keyboard.press("Tab")
        expect(page.locator("#live a").first).to_be_focused()


REFRESH = "htmx.ajax('GET', location.pathname, { target: '#live', select: '#live', swap: 'morph' })"


def test_a_live_part_keeps_its_elements_and_what_was_typed_selected_and_unfolded(
    service: RunningService, browser: Browser, book: Book
) -> None:
    with desk(browser, service, cookies_for(service, "operator")) as sitting:
        page = sitting.open("/console/")
        page.evaluate("""() => {
            const [row] = document.querySelectorAll("#live .table tbody tr[id]");
            const [field, fold] = [document.createElement("tr"), document.querySelector("#live details")];
            row.same = fold.open = true;
            row.before(field);  // stands for a row that has gone meanwhile
            const input = document.querySelector("#live").appendChild(document.createElement("input"));
            input.id = "typed";
            input.remove();
        }""")
        selected = "getSelection().selectAllChildren(document.querySelector('#live tbody tr[id] a'))"
        page.evaluate(selected)
        chosen = page.evaluate("getSelection().toString()")
        page.evaluate(REFRESH)
        expect(page.locator("#live .table tbody tr:not([id], [data-at])")).to_have_count(0)
        assert page.evaluate("document.querySelector('#live tbody tr[id]').same")
        assert page.evaluate("document.querySelector('#live details').open")
        assert page.evaluate("getSelection().toString()") == chosen != ""
        expect(page.locator(".chart canvas")).to_have_count(1)


@pytest.mark.promise("typed-text-is-kept")
@pytest.mark.parametrize("is_typing", [True, False], ids=["typing", "reading"])
def test_the_end_of_a_live_part_reloads_no_page_on_which_somebody_types(
    service: RunningService, browser: Browser, is_typing: bool
) -> None:
    def end(route: Route) -> None:
        """Answer as the page of a process that has ended meanwhile."""
        if "hx-request" not in route.request.headers:
            route.continue_()
            return
        answer = route.fetch()
        route.fulfill(response=answer, headers=answer.headers | {"hx-refresh": "true"})

    with desk(browser, service, cookies_for(service, "operator")) as sitting:
        page = sitting.open("/console/projections/")
        page.route("**/console/projections/", end)
        page.evaluate("document.body.dataset.before = document.querySelector('#live').dataset.before = 'yes'")
        if is_typing:
            page.locator("#q").fill("Frau Ç")
        page.evaluate(REFRESH)
        expect(page.locator("#live[data-before]")).to_have_count(0)
        expect(page.locator("body[data-before]")).to_have_count(1 if is_typing else 0)
        expect(page.locator("#q")).to_have_value("Frau Ç" if is_typing else "")


def test_live_parts_can_be_paused(service: RunningService, browser: Browser, book: Book) -> None:
    with desk(browser, service, cookies_for(service, "operator")) as sitting:
        page = sitting.open("/console/projections/")
        page.get_by_label("Live").uncheck()
        page.evaluate("document.querySelector('#live').dataset.before = 'yes'")
        page.evaluate(REFRESH)
        expect(page.locator("#live[data-before]")).to_have_count(1)
        page.get_by_label("Live").check()
        page.evaluate(REFRESH)
        expect(page.locator("#live[data-before]")).to_have_count(0)
        sitting.open("/console/password/")
        expect(page.get_by_text("Live", exact=True)).to_be_hidden()


@pytest.mark.promise("chart-leads-to-imports")
def test_the_chart_leads_to_the_imports_of_a_day_with_and_without_script(
    service: RunningService, browser: Browser, book: Book
) -> None:
    for has_script in (True, False):
        with desk(browser, service, cookies_for(service, "support"), java_script_enabled=has_script) as sitting:
            page = sitting.open(f"/console/?period=day&supplier={book.supplier}")
            if has_script:
                expect(page.locator(".chart .u-axis")).to_have_count(3)  # times, imports, and failures on their own
                chart, row = page.locator("[data-chart]"), page.locator("#chart-data tbody tr").first
                begins, step, count = (
                    int(chart.get_attribute(f"data-{name}") or 0) for name in ("from", "step", "count")
                )
                share = (int(row.get_attribute("data-at") or 0) - begins) / step / (count - 1)
                box = page.locator(".u-over").bounding_box()
                assert box is not None
                place: Position = {"x": min(box["width"] * share, box["width"] - 2), "y": box["height"] / 2}
                reading = page.locator(".u-legend .u-series").nth(1).locator(".u-value")
                for _ in range(100):  # the view can be late, and the chart reads values when the mouse moves
                    page.locator(".u-over").hover(position=place)
                    if reading.text_content() != "0":
                        break
                    page.mouse.move(0, 0)
                    page.wait_for_timeout(200)
                expect(reading).not_to_have_text("0")
                page.locator(".u-over").click(position=place)
            else:
                page.get_by_text("Show as a table").click()
                page.locator("#chart-data tbody a").first.click()
            expect(page.get_by_role("heading", name="Imports", level=1)).to_be_visible()
            expect(page.get_by_role("link", name=re.compile("^Sent on: "))).to_be_visible()
            expect(page.get_by_role("link", name=book.stays)).to_be_visible()


COUNTED = """addEventListener("click", (event) => {
    if (event.detail) sessionStorage.clicks = Number(sessionStorage.clicks || 0) + 1;
}, true)"""
"""Counts clicks of the mouse, and not those that Enter in a form makes."""


@pytest.mark.promise("text-in-three-clicks")
def test_support_copies_the_text_for_the_importer_in_three_clicks(
    service: RunningService, browser: Browser, book: Book
) -> None:
    """From a caller's words to the text that names the problem, the field and what to do."""
    permissions = ["clipboard-read", "clipboard-write"]
    with desk(browser, service, cookies_for(service, "support"), permissions=permissions) as sitting:
        found(sitting.open("/console/"), "nebelhorn", book.stays)
        sitting.page.add_init_script(COUNTED)
        page = sitting.open("/console/")
        page.keyboard.press("/")
        page.keyboard.type("nebelhorn")
        page.keyboard.press("Enter")
        page.get_by_role("link", name=book.stays).click()
        page.get_by_role("button", name="Copy the text for the importer").click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        text = str(page.evaluate("navigator.clipboard.readText()"))
        assert text.startswith(f"Account {book.stays} of {book.supplier} failed in run {RUN}:")
        assert "path_does_not_exist_in_file_store, statements.0.statement_path" in text
        assert "To do: Upload the document" in text
        assert "Nebelhorn" not in text
        assert 0 < int(page.evaluate("sessionStorage.clicks")) <= 3


@pytest.mark.promise("actions-at-first-tick")
def test_actions_on_many_imports_appear_at_the_first_tick(
    service: RunningService, browser: Browser, book: Book
) -> None:
    with desk(browser, service, cookies_for(service, "support"), java_script_enabled=False) as sitting:
        page = sitting.open(f"/console/imports/?supplier={book.supplier}")
        expect(page.get_by_role("button", name="Retry…")).to_be_hidden()
        page.get_by_label(f"Select {book.stays}").check()
        page.get_by_role("button", name="Retry…").click()
        expect(page.get_by_role("heading", name="Retry failed imports")).to_be_visible()


def test_shortcuts_lead_to_the_search_to_pages_and_to_their_list(
    service: RunningService, browser: Browser, book: Book
) -> None:
    with desk(browser, service, cookies_for(service, "support")) as sitting:
        page = sitting.open("/console/proof/")
        page.keyboard.press("?")
        expect(page.get_by_role("heading", name="Keyboard shortcuts")).to_be_visible()
        page.keyboard.press("g")
        page.keyboard.press("3")
        expect(page.get_by_role("heading", name="Runs", level=1)).to_be_visible()
        page.keyboard.press("/")
        page.keyboard.type("?/g1")
        expect(page.locator("#q")).to_have_value("?/g1")
        sitting.open("/console/shortcuts/")
        page.get_by_role("button", name="Turn shortcuts off").click()
        expect(page.get_by_role("button", name="Turn shortcuts on")).to_be_visible()
        page.keyboard.press("/")
        expect(page.locator("#q")).not_to_be_focused()


def test_an_auditor_compares_a_checkpoint_from_a_file(
    service: RunningService, browser: Browser, book: Book, tmp_path: Path
) -> None:
    file = tmp_path / "monday.note"
    file.write_text(book.checkpoint)
    with desk(browser, service, cookies_for(service, "auditor")) as sitting:
        page = sitting.open("/console/proof/")
        page.get_by_label("File of the checkpoint").set_input_files(file)
        page.get_by_role("button", name="Compare").click()
        expect(page.get_by_role("status")).to_contain_text("no event that the checkpoint covers was altered")
        page.get_by_role("button", name="Verify every event against this checkpoint").click()
        expect(page.locator("#tasks .state").first).to_have_text("done", timeout=60_000)  # without a reload
        expect(page.get_by_text("The log is unchanged.")).to_be_visible()
        page.get_by_role("navigation").get_by_role("link", name="Personal data").click()
        expect(page.get_by_role("heading", name="Access to personal data")).to_be_visible()


@pytest.mark.promise("pages-without-script")
def test_without_script_an_operator_lets_people_in_and_support_finds_and_retries(
    service: RunningService, browser: Browser, book: Book
) -> None:
    with desk(browser, service, java_script_enabled=False) as sitting:
        page = sitting.open(book.sign_in)
        page.locator("main button").click()
        page.get_by_label("New password").fill("three plain words")
        page.get_by_label("Repeat the password").fill("three plain words")
        page.get_by_role("button", name="Set the password").click()
        expect(page.get_by_role("status")).to_contain_text("The password is set.")
        page.get_by_text("Show as a table").click()
        page.get_by_role("navigation").get_by_role("link", name="Administration", exact=True).click()
        page.get_by_text("Create a supplier").click()
        page.get_by_label("Code", exact=True).fill(f"OHNE{secrets.token_hex(4)}")
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("OHNE")
        page.get_by_role("button", name="Deutsch").click()
        expect(page.get_by_role("heading", name="Einstellungen")).to_be_visible()
    with desk(browser, service, cookies_for(service, "support"), java_script_enabled=False) as sitting:
        page = sitting.open("/console/")
        found(page, book.supplier, "")
        page.get_by_role("link", name="Show all").click()
        page.get_by_role("link", name=re.compile(f"^{book.supplier}")).click()
        page.get_by_role("link", name=re.compile("^Failed")).click()
        page.get_by_label("All imports that fit the filter, on every page").check()
        page.get_by_role("button", name="Retry…").click()
        expect(page.get_by_text(re.compile(r"^\d+ imports?$"))).to_be_visible()
        expect(page.get_by_text("importledger")).to_have_count(0)
        page.get_by_label("Reason").fill("without script")
        page.get_by_role("button", name="Retry", exact=True).click()
        expect(page.get_by_role("status")).to_contain_text("processed again")


@pytest.mark.promise("pages-without-script")
def test_by_keyboard_alone_an_account_is_found_and_retried(
    service: RunningService, browser: Browser, book: Book
) -> None:
    with desk(browser, service, cookies_for(service, "support")) as sitting:
        page = sitting.open("/console/")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()
        page.keyboard.press("/")
        expect(page.locator("#q")).to_be_focused()
        page.keyboard.type(book.hostile)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Imports", level=1)).to_be_visible()
        sitting.tab_to(f"element.textContent.trim() === {json.dumps(book.hostile)}")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_contain_text("onerror")
        expect(page.locator("h1 .state")).to_have_text("Failed", timeout=60_000)  # others may have retried it
        sitting.tab_to("element.id === 'retry-reason'")
        page.keyboard.type("by keyboard")
        page.keyboard.press("Enter")
        expect(page.get_by_text("The import is processed again.")).to_be_visible()
        page.locator(".who summary").focus()
        page.keyboard.press("Enter")
        sitting.tab_to("element.textContent.trim() === 'Sign out'")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        sitting.open("/console/personal-data/")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


@pytest.mark.promise("saved-filters")
def test_a_saved_filter_leads_back_to_its_list_on_every_page(
    service: RunningService, browser: Browser, book: Book
) -> None:
    cookies = cookies_for(service, "support")
    with desk(browser, service, cookies) as sitting:
        page = sitting.open(f"/console/imports/?supplier={book.supplier}&status=ERRORED")
        page.get_by_text("Saved filters").click()
        page.get_by_label("Name of the filter").fill(LONG[:60])
        page.keyboard.press("Enter")
        expect(page.get_by_role("status").first).to_have_text("The filter was saved.")
    for width in (WIDE, NARROW):
        with desk(browser, service, cookies, viewport=width) as sitting:
            page = sitting.open("/console/errors/")
            page.get_by_text("Saved filters").click()
            sitting.shoot(f"saved-filters-{width['width']}")
            assert (sitting.cut(), sitting.faults()) == ([], [])
            page.get_by_role("link", name=LONG[:60]).click()
            expect(page).to_have_url(re.compile(rf"/console/imports/\?supplier={book.supplier}&status=ERRORED$"))


_DENSITY = """() => {
  const cell = getComputedStyle(document.querySelector("tbody td"));
  const head = getComputedStyle(document.querySelector("thead th"));
  const parts = [cell.paddingTop, cell.paddingBottom, cell.lineHeight, cell.borderBottomWidth];
  return [cell.fontSize, parts.map(parseFloat).reduce((sum, part) => sum + part), head.position, head.top];
}"""
"""Size of a table's text, height of a row of one line, and place of the head."""

_SHORTEST_ROW = """() => {
  for (const cell of document.querySelectorAll("td")) if (cell.querySelector("br")) cell.textContent = "–";
  const rows = Array.from(document.querySelectorAll(".table tbody tr"), (row) => row.getBoundingClientRect().height);
  return Math.min(...rows);
}"""
"""Height of the lowest row, once its cells have one line each."""
_LINES_OF_CODES = """() => {
  const lines = [];
  for (const cell of document.querySelectorAll("td.code, th.code")) {
    const text = cell.querySelector("a") || cell;
    text.textContent = "X".repeat(32);
    lines.push(text);
  }
  return lines.map((text) => { const range = document.createRange(); range.selectNodeContents(text);
    return new Set(Array.from(range.getClientRects(), (box) => box.top)).size; });
}"""
"""Lines of each supplier code, once every code is as long and as wide as a code can be."""
_DOTS_ALONE = """() => Array.from(document.querySelectorAll("td .state"), (state) => {
  const range = document.createRange(); range.selectNodeContents(state);
  return range.getClientRects()[0].top - state.getBoundingClientRect().top;
}).filter((distance) => distance > 10)"""
"""Distances of words from their dot, if a dot has a line for itself [pixels]."""


@pytest.mark.promise("dense-tables")
@pytest.mark.parametrize("language", ["de-DE", "en-GB"])
def test_the_longest_supplier_code_stays_on_one_line(
    service: RunningService, browser: Browser, book: Book, language: str
) -> None:
    with desk(browser, service, cookies_for(service, "operator"), language=language, viewport=WIDE) as sitting:
        for path in ("/console/", "/console/imports/", "/console/runs/", "/console/suppliers/"):
            lines = sitting.open(path).evaluate(_LINES_OF_CODES)
            assert (set(lines), sitting.cut()) == ({1}, []), path
            assert sitting.page.evaluate(_DOTS_ALONE) == [], path


@pytest.mark.promise("dense-tables")
def test_tables_are_dense_their_heads_stay_and_only_the_content_is_printed(
    service: RunningService, browser: Browser, book: Book
) -> None:
    wide = {"width": 1920, "height": 1080}
    with desk(browser, service, cookies_for(service, "operator"), viewport=wide) as sitting:
        for path in ("/console/", "/console/imports/", "/console/errors/", "/console/system/"):
            sitting.open(path)
            assert (sitting.faults(), sitting.cut()) == ([], []), path
        page = sitting.open("/console/imports/")
        assert page.evaluate(_DENSITY) == ["14px", 36, "sticky", "0px"]
        assert page.evaluate(_SHORTEST_ROW) <= 36
        for path in ("/console/", "/console/keys/", "/console/suppliers/"):
            assert sitting.open(path).evaluate(_SHORTEST_ROW) <= 36, path
        page = sitting.open("/console/imports/")
        page.emulate_media(media="print")
        for hidden in (".top", ".main-nav", ".chips", "main form:not(:has(table))", ".tick", ".cli"):
            assert not any(part.is_visible() for part in page.locator(hidden).all()), hidden
        assert page.get_by_role("table").first.is_visible()
