"""Screens in a browser without script, for support staff, auditors and operators."""

import asyncio
import io
import re
import zipfile
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import httpx
import msgspec
import psycopg
import pytest

from cli.checkup.finding import good, wrong
from console.settings import ConsoleSettings
from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import CompleteImport, FailImport, stream_of
from eventstore.aggregates.supplier import ChangeSupplierStatus
from eventstore.aggregates.supplier import stream_of as supplier_stream
from eventstore.clock import now
from eventstore.log.intake_stop import stop_intake
from eventstore.log.ledger import Ledger
from eventstore.proof.checkpoints import CheckpointCopies, LogKey
from eventstore.proof.sealing import seal
from eventstore.proof.verifier import check
from projections import FOLLOWING, PROJECTIONS
from projections.auxiliary.refused_attempts import Attempt
from projections.queries.vitals import read_part
from projections.versions.overview import version_standings
from projections.views.owner_task import owner_tasks
from schemas.sentence import Sentence
from tests.support.auditors import audited
from tests.support.console import Browser, Visit, create_supplier, csrf_in, new_user, send, words_of
from tests.support.databases import Admin
from tests.support.following import follow
from tests.support.make import an_account, changed, start
from tests.support.refused import write
from tests.support.staging import SUPPLIER, stage

CANARY = "<script>alert(1)</script>"
IBAN = "invalid_iban@payment_instructions.0.bank_account.iban"
RULE = "An IBAN is not valid. Rule: The IBAN of a bank account must be valid."


def person(number: str, family: str) -> dict[str, Any]:
    account = changed(an_account(SUPPLIER, 1), number, "external_account_number")
    return changed(account, family, "customers", 0, "family_name")


def fails(ledger: Ledger, stream: str) -> None:
    ledger.execute(stream, start(worker=3), at=now(), by="worker:3")
    failed = FailImport(start=2, code="account_failed_validation", detail="No.", problems=(IBAN,))
    ledger.execute(stream, failed, at=now(), by="worker:3")


@pytest.fixture
def book(ledger: Ledger) -> Ledger:
    """Two suppliers. The first has an account in each status."""
    for code in (SUPPLIER, "FOREIGN"):
        create_supplier(ledger, code)
    fails(ledger, stage(ledger, person("E/1", "Yılmaz")))
    fails(ledger, stage(ledger, person("E-2", CANARY)))
    stage(ledger, person("P-1", "Groß"), run="monday")
    stream = stage(ledger, person("D-1", "Demir"))
    ledger.execute(stream, start(worker=3), at=now(), by="worker:3")
    ledger.execute(stream, CompleteImport(start=2, account_number="A-00000001"), at=now(), by="worker:3")
    with ledger.connection() as connection:
        attempt = Attempt(
            supplier=SUPPLIER, external_account_number="R-1", attempted_at=now(), operation="create_account",
            code="account_failed_validation", problems=("blank@customers.0.family_name",),
        )  # fmt: skip
        write(connection, attempt)
    follow(ledger)
    return ledger


def test_a_stopped_intake_is_named_and_refuses_a_retry(book: Ledger, operator: Browser) -> None:
    with book.connection() as connection:
        assert stop_intake(connection, size=700, note="x", reason="TRUNCATED")
    for page in ("/console/", "/console/proof/", "/console/system/"):
        words = words_of(operator.get(page).text)
        assert "the log does not match the signed checkpoint of 700 events" in words
    account = f"/console/imports/{SUPPLIER}/E%2F1/"
    refused = send(operator, f"{account}retry/", {"reason": "fixed"}, at=account)
    assert refused.status_code == 503
    assert "Intake is stopped" in words_of(refused.text)


def test_a_list_of_one_problem_shows_that_problem_with_its_field(book: Ledger, visit: Visit) -> None:
    stream = stage(book, person("M-1", "Groß"))
    book.execute(stream, start(worker=3), at=now(), by="worker:3")
    problems = ("blank@customers.0.family_name", "blank@billing_address1", IBAN)
    failed = FailImport(start=2, code="account_failed_validation", detail="No.", problems=problems)
    book.execute(stream, failed, at=now(), by="worker:3")
    follow(book)
    for code, path, german in (
        ("invalid_iban", "payment_instructions[].bank_account.iban", "Die IBAN eines Bankkontos muss gültig sein."),
        ("blank", "billing_address1", "nicht leer sein"),
        ("blank", "customers[].family_name", "nicht leer sein"),
    ):
        chosen = {"supplier": SUPPLIER, "code": code, "path": path}
        browser = visit(language="de")
        page = browser.get("/console/imports/", params=chosen).text
        [row] = re.findall(r"<tr>(?:(?!</tr>).)*M-1</a>.*?</tr>", page, re.DOTALL)
        code_and_path = f"<code>{code}</code> in <code>{path}</code>"
        assert code_and_path.replace("_", "_<wbr>").replace(".", ".<wbr>") in row
        assert german in row
        assert "account_failed_validation" not in row
        [line] = [
            line for line in browser.get("/console/imports/export/", params=chosen).text.splitlines() if "M-1" in line
        ]
        assert f",{code},{path}," in line
        assert german in line


@pytest.mark.promise("late-figures-say-so")
def test_figures_that_are_late_say_so_on_every_page_that_shows_them(
    book: Ledger, support: Browser, admin: Admin
) -> None:
    pages = ("/console/", "/console/errors/", "/console/errors/invalid_iban/", "/console/imports/?run=tuesday")
    for page in pages:
        assert "This page shows the state of" not in support.get(page).text, page
    assert "This page shows the state of" not in find(support, "Demir").text
    stage(book, person("L-1", "Lavendel"), run="tuesday")
    admin.execute("ALTER TABLE events DISABLE TRIGGER USER")
    admin.execute("UPDATE events SET recorded_at = recorded_at - interval '1 minute'")
    admin.execute("ALTER TABLE events ENABLE TRIGGER USER")
    for page in pages:
        words = words_of(support.get(page).text)
        assert re.search(r"This page shows the state of .* without [1-9] later events\.", words), page
    assert "Counts can be up to" not in support.get("/console/").text
    missed = words_of(find(support, "Lavendel").text)
    assert ("No match so far." in missed, "No import matches" in missed) == (True, False)
    assert "D-1" in find(support, "Demir").text  # what the search has is shown
    assert "This page shows the state of" not in support.get("/console/imports/").text  # written with the append
    follow(book)
    for page in pages:
        assert "This page shows the state of" not in support.get(page).text, page
    admin.execute("UPDATE projection_versions SET definition = 'of an earlier release'")
    for shown in (*(support.get(page) for page in pages), find(support, "Nobody")):
        assert "The page can lack imports until an operator rebuilds the view." in words_of(shown.text)
    assert "No match so far." in words_of(find(support, "Nobody").text)


def test_a_retired_version_has_no_lag(book: Ledger, admin: Admin) -> None:
    admin.execute(
        "INSERT INTO projection_versions SELECT (jsonb_populate_record(v, jsonb_build_object("
        "'version', 9, 'state', 'retired', 'position', 1))).* FROM projection_versions AS v"
        " WHERE name = 'throughput'"
    )
    with book.connection() as connection:
        standings = version_standings(connection, PROJECTIONS)
        names = tuple(projection.name for projection in FOLLOWING)
        assert read_part(connection, names, "events").projection_lags["throughput"].events == 0
    assert {(row.state, row.lag) for row in standings if row.name == "throughput"} == {("live", 0), ("retired", 0)}


def followed(browser: Browser, path: str, fields: dict[str, Any], *, at: str) -> httpx.Response:
    """Send a form, and return the page that it leads to."""
    answer = send(browser, path, fields, at=at)
    assert answer.status_code == 303, answer.text
    return browser.get(answer.headers["location"])


def test_a_second_tab_is_told_that_somebody_was_faster(book: Ledger, visit: Visit) -> None:
    at = f"/console/imports/{SUPPLIER}/D-1/"
    browser = visit(language="de")
    for verb in ("retry", "cancel"):
        page = words_of(followed(browser, f"{at}{verb}/", {"reason": "x"}, at=at).text)
        assert "Nichts wurde geändert: Der Status des Imports ist jetzt „Verarbeitet“." in page
    unknown = f"/console/imports/{SUPPLIER}/none/retry/"
    assert send(browser, unknown, {"reason": "x"}, at=at).status_code in (400, 404, 409)


@pytest.mark.parametrize("scope", ["all", ""], ids=["all that match", "selected"])
def test_a_selection_of_an_earlier_session_is_never_another_selection(book: Ledger, visit: Visit, scope: str) -> None:
    user = new_user(book, role="support", suppliers=["*"])
    old, fresh, other = visit(user_id=user), visit(user_id=user), "/console/imports/find/"
    found = send(old, other, {"q": "nobody of this name"}, at="/console/imports/").headers["location"]
    chosen = {"verb": "cancel", "scope": scope, "q": "nobody", "chosen": f"{SUPPLIER}/E/1"}
    preview = send(old, "/console/imports/decide/", chosen, at="/console/imports/").headers["location"]
    mixed = f"/console/imports/decide/?chosen={found.partition('search=')[2]}"
    assert old.get(preview).status_code == 200
    refused = [preview, mixed, found.replace("/imports/", "/imports/export/")]
    refused += ["/console/imports/decide/?scope=all&status=lost", "/console/imports/export/?day=tomorrow"]
    for address in refused:
        answer = fresh.get(address)
        assert answer.status_code == 400, address
        assert "The filter or the selection in the address cannot be read" in words_of(answer.text)
    assert "The filter ignores the search text" in words_of(fresh.get(found).text)
    assert "The filter ignores" not in words_of(old.get(found).text)


def test_many_are_decided_about_after_a_preview(book: Ledger, operator: Browser) -> None:
    chosen = {"verb": "retry", "chosen": [f"{SUPPLIER}/E/1", f"{SUPPLIER}/D-1", "FOREIGN/X", "nonsense"]}
    preview = followed(operator, "/console/imports/decide/", chosen, at="/console/imports/")
    assert "1 import " in words_of(preview.text)
    assert "importledger retry NORDWIND E/1 --reason …" in preview.text
    whole = {"verb": "retry", "scope": "all", "code": "invalid_iban", "supplier": SUPPLIER}
    preview = followed(operator, "/console/imports/decide/", whole, at="/console/imports/")
    assert "2 imports" in words_of(preview.text)
    assert "--code invalid_iban" in preview.text
    without = send(operator, "/console/imports/decided/", whole, at="/console/imports/")
    done = send(operator, "/console/imports/decided/", whole | {"reason": "fixed"}, at="/console/imports/")
    assert (without.status_code, done.status_code) == (400, 303)
    assert "Imports that are processed again: 2." in words_of(operator.get(done.headers["location"]).text)
    cancel = {"verb": "cancel", "scope": "all", "run": "monday"}
    preview = followed(operator, "/console/imports/decide/", cancel, at="/console/imports/")
    assert "1 import " in words_of(preview.text)
    waiting = {"verb": "cancel", "chosen": f"{SUPPLIER}/D-1"}
    nothing = followed(operator, "/console/imports/decide/", waiting, at="/console/imports/")
    assert "nothing to cancel" in words_of(nothing.text)
    unticked = followed(operator, "/console/imports/decide/", {"verb": "cancel"}, at="/console/imports/")
    assert "Nothing was selected." in words_of(unticked.text)
    many = {"verb": "retry", "chosen": [f"{SUPPLIER}/{number:064x}" for number in range(100)]}
    assert followed(operator, "/console/imports/decide/", many, at="/console/imports/").status_code == 200
    unknown = send(operator, "/console/imports/decide/", {"verb": "erase"}, at="/console/imports/")
    assert unknown.status_code == 404


def find(browser: Browser, text: str, **fields: str) -> httpx.Response:
    """Search for a text, and return the list."""
    answer = send(browser, "/console/imports/find/", {"q": text} | fields, at="/console/imports/")
    assert quote(text) not in answer.headers["location"]
    return browser.get(answer.headers["location"])


@pytest.mark.promise("somebody-looks-stands-address")
@pytest.mark.asvs("V14.2.1")
def test_what_somebody_looks_for_stands_in_no_address(book: Ledger, visit: Visit) -> None:
    browser = visit()
    page = find(browser, "Yılmaz", status="ERRORED")
    assert "E/1" in page.text
    assert 'value="Yılmaz"' in page.text
    links = re.findall(r'(?:href|action|hx-get)="([^"]*)"', page.text)
    assert [link for link in links if "lmaz" in unquote(link)] == []
    exported = browser.get(f"/console/imports/export/?{page.url.query.decode()}").text
    assert ("E/1" in exported, "Yılmaz" in exported) == (True, False), "a table holds nobody's name"
    assert 'value="Yılmaz"' not in visit().get(str(page.url)).text


@pytest.mark.asvs("V1.1.2", "V1.2.1", "V1.3.7", "V3.2.2")
def test_nothing_that_an_importer_chose_is_markup(book: Ledger, support: Browser) -> None:
    shown = {"reason": CANARY}
    at = f"/console/imports/{SUPPLIER}/E-2/"
    send(support, f"/console/personal-data/{SUPPLIER}/E-2/", shown, at=at)
    page = support.get(at)
    assert CANARY not in page.text
    assert "&lt;script&gt;alert(1)" in page.text
    for query in ("q", "code", "path", "run", "day", "status", "supplier"):
        assert CANARY not in support.get("/console/imports/", params={query: CANARY}).text


@pytest.mark.asvs("V8.1.2", "V8.2.3", "V15.3.1")
@pytest.mark.api_top_10("API3")
def test_persons_are_masked_until_somebody_says_why(book: Ledger, support: Browser) -> None:
    at = f"/console/imports/{SUPPLIER}/E%2F1/"
    masked = support.get(at).text
    assert ("Yılmaz" in masked, RULE in words_of(masked)) == (False, True)
    send(support, f"/console/personal-data/{SUPPLIER}/E%2F1/", {"reason": "ticket 7"}, at=at)
    page = support.get(at)
    assert "Yılmaz" in page.text
    assert "Personal data shown" in words_of(page.text)
    assert "ticket 7" in page.text


def test_the_past_is_shown_as_it_was_known_then(book: Ledger, support: Browser) -> None:
    stage(book, changed(person("E/1", "Yılmaz"), "20099", "billing_postcode"))
    first = book.history(stream_of(SUPPLIER, "E/1"))[0]

    at = f"/console/imports/{SUPPLIER}/E%2F1/"
    then = words_of(support.get(f"{at}?as_of={first.position}").text)
    assert "Actions" not in then
    assert "Processing started" not in then
    differing = words_of(support.get(f"{at}?from=1&to=4").text)
    assert "billing_postcode" in differing
    assert "20099" not in differing
    for query, status in (("as_of=never", 400), ("as_of=0", 200), ("from=1&to=9", 400), ("payload=9", 200)):
        assert support.get(f"{at}?{query}").status_code == status


def test_what_was_refused_is_found_by_its_number_and_shows_sentences(book: Ledger, visit: Visit) -> None:
    address = f"/console/imports/{SUPPLIER}/R-1/"
    support = visit()
    assert "R-1 : The account could not be validated" in words_of(find(support, "R-1").text)
    page = words_of(support.get(address).text)
    for text in (
        "Never accepted",
        "account_failed_validation",
        "family name must not be blank.",
        "customers.0.family_name",
    ):
        assert text in page
    assert "nicht leer sein." in words_of(visit(language="de").get(address).text)
    assert support.get(f"/console/imports/{SUPPLIER}/R-2/").status_code == 404


def test_errors_lead_to_the_accounts_in_both_languages(book: Ledger, visit: Visit) -> None:
    browser = visit(language="de")
    page = browser.get("/console/errors/")
    assert "Regel: Die IBAN eines Bankkontos muss gültig sein." in words_of(page.text)
    link = 'href="(/console/imports/[?]supplier=NORDWIND&amp;code=invalid_iban&amp;[^"]*fixed=no)"'
    [address] = re.findall(link, page.text)
    listed = browser.get(unescape(address)).text
    assert "E/1" in listed
    assert listed.count('<input type="hidden" name="fixed" value="no">') == 3  # searching, narrowing, deciding
    assert "E/1" not in browser.get(unescape(address).replace("fixed=no", "fixed=yes")).text
    code = words_of(browser.get("/console/errors/invalid_iban/").text)
    assert "Die IBAN eines Bankkontos muss gültig sein." in code
    assert browser.get("/console/errors/nonsense/").status_code == 404


def test_what_needs_the_owner_is_asked_for_with_a_reason(book: Ledger, database: PostgresUrls, visit: Visit) -> None:
    browser = visit("operator")
    at = f"/console/imports/{SUPPLIER}/E%2F1/"
    wrong = send(browser, f"{at}erase/", {"reason": "DSR-1", "typed": "E-1"}, at=at)
    shown = send(browser, f"{at}erase/", {"reason": "DSR-0", "typed": "E-1", "here": at}, at=at)
    assert ('id="typed-error"' in shown.text, 'value="DSR-0"' in shown.text) == (True, True)
    right = send(browser, f"{at}erase/", {"reason": "DSR-1", "typed": "E/1"}, at=at)
    healed = send(browser, f"{at}heal/", {"reason": "looks wrong"}, at=at)
    assert (wrong.status_code, right.status_code, healed.status_code) == (400, 303, 303)
    assert "Erase the person" in words_of(browser.get(at).text)
    at = "/console/projections/import_status/"
    for verb, fields, status in (
        ("verify", {}, 303), ("rebuild", {}, 400), ("rebuild", {"reason": "new"}, 303),
        ("switch", {"reason": "new", "version": "9"}, 400),
    ):  # fmt: skip
        assert send(browser, f"{at}{verb}/", fields, at=at).status_code == status
    assert browser.get("/console/projections/nonsense/").status_code == 404
    assert send(browser, "/console/proof/verify/", {"all": "yes"}, at="/console/proof/").status_code == 303
    words = words_of(browser.get("/console/tasks/").text)
    assert ("DSR-1" in words, "looks wrong" in words, "masked" in words) == (True, False, True)
    assert "@example.org" in words  # who has asked
    assert "@example.org" in words_of(browser.get("/console/proof/").text)

    async def asked() -> list[str]:
        async with await psycopg.AsyncConnection.connect(database.service) as connection:
            return sorted(task.kind for task in await owner_tasks(connection, "", {}, 20))

    kinds = ["erase", "heal", "log_verify", "projection_rebuild", "projection_verify"]
    assert asyncio.run(asked()) == kinds

    browser = visit("auditor", suppliers=("FOREIGN",))
    assert "No operation was requested yet." in words_of(browser.get("/console/tasks/").text)


@pytest.mark.asvs("V5.4.1", "V5.4.2")
def test_a_proof_and_a_checkpoint_are_downloaded_and_checkpoints_are_compared(
    book: Ledger, folder: Path, auditor: Browser, admin: Admin
) -> None:
    key, at = LogKey.of("A" * 43), "/console/proof/checkpoint.note"
    assert auditor.get(at).status_code == 404
    sealed = seal(admin, key, CheckpointCopies(folder.as_uri()), at=now())
    assert sealed is not None

    newest = auditor.get(at)
    assert newest.text == sealed.note
    name = f"checkpoint-{sealed.note.splitlines()[1]}.note"
    assert newest.headers["content-disposition"] == f'attachment; filename="{name}"'
    shown = auditor.get("/console/proof/").text
    assert (f'href="{at}"' in shown, key.verifier in words_of(shown)) == (True, True)
    assert "Covered by checkpoint" in words_of(auditor.get(f"/console/imports/{SUPPLIER}/E%2F1/").text)
    answer = auditor.get(f"/console/imports/{SUPPLIER}/E%2F1/proof.zip")
    statements, wrong = check(zipfile.ZipFile(io.BytesIO(answer.content)), key.verifier, [sealed.note])
    assert wrong == []
    assert len(statements) > 3
    (folder / "proof.zip").write_bytes(answer.content)
    other = LogKey.of("B" * 43).sign(3, b"r" * 32, now())
    later = key.sign(10**6, b"r" * 32, now())
    forged = key.sign(3, b"r" * 32, now())
    for note, verdict in (
        (sealed.note, "no event that the checkpoint covers was altered"),
        (forged, "an event that the checkpoint covers was altered"),
        (sealed.note.replace("time 20", "time 19"), "the checkpoint was altered, or another key signed it"),
        (later, "the end of the log is missing"), (other, "to another log"), (CANARY, "not a signed checkpoint"),
    ):  # fmt: skip
        page = followed(auditor, "/console/proof/compare/", {"note": note}, at="/console/proof/")
        assert note.strip() not in unquote(str(page.url))
        assert verdict in words_of(page.text), verdict
        assert CANARY not in page.text
    csrf = csrf_in(auditor.get("/console/proof/").text)
    file = {"file": ("monday.note", sealed.note.replace("\n", "\r\n"), "text/plain")}
    answer = auditor.post("/console/proof/compare/", data={"csrf": csrf, "note": ""}, files=file)
    page = auditor.get(answer.headers["location"])
    assert "no event that the checkpoint covers was altered" in words_of(page.text)
    assert "Verify every event against this checkpoint" in words_of(page.text)
    assert auditor.get("/console/proof/?before=x").status_code == 400
    place = folder / "auditor"  # who has the file and a Python, and nothing of ours
    place.mkdir()
    (place / "proof.zip").write_bytes((folder / "proof.zip").read_bytes())
    with zipfile.ZipFile(folder / "proof.zip") as proof:
        vkey = proof.read("log.vkey").decode()
    audit = audited(place, "proof.zip", "--key", vkey.strip())
    assert (audit.returncode, audit.stderr) == (0, "")


@pytest.mark.promise("only-checkpoint-log-signed")
@pytest.mark.asvs("V5.2.2")
def test_only_a_checkpoint_that_the_log_has_signed_gets_into_the_log(
    book: Ledger, folder: Path, auditor: Browser, admin: Admin
) -> None:
    sealed = seal(admin, LogKey.of("A" * 43), CheckpointCopies(folder.as_uri()), at=now())
    assert sealed is not None
    other = LogKey.of("B" * 43).sign(3, b"r" * 32, now())
    forged = sealed.note.replace("time 20", "time 19")
    like_one = f"{sealed.note.split()[0]}\n3\ncg==\n{CANARY}\n\n— {CANARY} eA==\n"

    for note in (CANARY, like_one, other, forged, sealed.note + "x" * 10_000, f"{CANARY}\n{sealed.note}"):
        answer = send(auditor, "/console/proof/verify/", {"against": note}, at="/console/proof/")
        assert (answer.status_code, "must be a checkpoint" in answer.text) == (400, True)
    more = {"against": f"{sealed.note}— {CANARY} eA==\n{CANARY}"}
    assert send(auditor, "/console/proof/verify/", more, at="/console/proof/").status_code == 303
    query = "SELECT state FROM events WHERE topic = 'owner_task_requested.v1'"
    [(state,)] = admin.execute(query).fetchall()
    assert msgspec.json.decode(state)["arguments"] == {"against": sealed.note}


def test_pages_are_honest_where_there_is_nothing(ledger: Ledger, visit: Visit) -> None:
    browser = visit()
    for path, says in (
        ("/console/", "There is no supplier yet."),
        ("/console/imports/?supplier=NOBODY", "No import matches the filters."),
        ("/console/errors/", "No import has failed."),
        ("/console/projections/", "import_status"), ("/console/proof/", "There is no checkpoint yet."),
        ("/console/?period=week", "No activity in this period."),
    ):  # fmt: skip
        answer = browser.get(path)
        assert (answer.status_code, says in words_of(answer.text)) == (200, True), path
    browser = visit(suppliers=("NOBODY",))
    assert "There is no supplier that you may see." in words_of(browser.get("/console/").text)


def row_of(page: str, number: str) -> str:
    """The words of a row of a table."""
    rows = [words_of(f"<main>{row}") for row in re.findall(r"<tr[ >].*?</tr>", page, re.DOTALL)]
    [row] = [row for row in rows if number in row]
    return row


def test_the_list_shows_the_masked_person_the_real_problem_and_the_run(book: Ledger, support: Browser) -> None:
    page = support.get("/console/imports/").text
    failed = row_of(page, "E/1")
    assert "C••• Y•••, 60•••" in failed
    assert (
        "The IBAN of a bank account must be valid. invalid_iban in payment_instructions[].bank_account.iban" in failed
    )
    assert "account_failed_validation" not in failed
    assert "monday" in row_of(page, "P-1")
    assert ("Yılmaz" in page, "yilmaz" in page) == (False, False)
    for status, has_account in (("", True), ("PROCESSED", True), ("ERRORED", False), ("PENDING", False)):
        listed = support.get("/console/imports/", params={"status": status}).text
        assert ('<th scope="col">Account</th>' in listed) == has_account, status
    exported = support.get("/console/imports/export/").text
    assert re.search(r"E/1,ERRORED,,invalid_iban,payment_instructions\[\]\.bank_account\.iban,", exported)


@pytest.mark.promise("filters-have-counts")
def test_filters_are_chips_with_counts_and_can_be_removed(book: Ledger, support: Browser) -> None:
    words = words_of(support.get("/console/imports/").text)
    assert words.startswith(
        "Imports 4 Export as CSV All 4 Waiting 1 Processed 1 Failed 2 All suppliers 4 FOREIGN 0 NORDWIND 4"
    )
    narrowed = support.get("/console/imports/", params={"status": "ERRORED", "supplier": SUPPLIER}).text
    assert words_of(narrowed).startswith("Imports 2 Export as CSV All 4")
    [chosen] = set(re.findall(r'aria-current="true">Failed <span class="count">(\d)', narrowed))
    assert chosen == "2"
    page = support.get("/console/imports/", params={"run": "monday", "code": "invalid_iban"}).text
    [without] = re.findall(r'href="([^"]*)">Run: monday', page)
    assert unescape(without) == "/console/imports/?code=invalid_iban"
    of_run = words_of(support.get("/console/imports/", params={"run": "monday", "supplier": SUPPLIER}).text)
    assert of_run.startswith("Imports 1 Export as CSV All 1 Waiting 1")
    searched = find(support, "Demir").text
    assert "“Demir” ×" in words_of(searched)


@pytest.mark.promise("commands-in-one-drawer")
def test_commands_are_in_one_drawer_that_support_does_not_have(book: Ledger, visit: Visit) -> None:
    at = f"/console/imports/{SUPPLIER}/E%2F1/"
    for role, is_there in (("support", False), ("auditor", True), ("operator", True)):
        browser = visit(role)
        for path in (at, "/console/projections/", "/console/proof/"):
            page = browser.get(path).text
            assert ("importledger " in words_of(page), page.count('<details class="cli">')) == (is_there, is_there)
            assert "importledger " not in page.partition('<details class="cli">')[0]


@pytest.mark.promise("overview-begins-to-do")
def test_the_first_page_begins_with_what_somebody_has_to_do(book: Ledger, visit: Visit, admin: Admin) -> None:
    browser = visit("operator")
    page = browser.get("/console/").text
    todo = words_of(page).partition("Suppliers")[0]
    assert "Failed 2 accounts An IBAN is not valid. payment_instructions[].bank_account.iban" in todo
    assert "Nothing" not in todo
    assert row_of(page, SUPPLIER).startswith(f"{SUPPLIER} ongoing 4 2 66.7% 1 ")
    command = ChangeSupplierStatus(status="paused", reason="wait")
    book.execute(supplier_stream(SUPPLIER), command, at=now(), by="t")
    admin.execute(
        "INSERT INTO parked_streams (name, version, stream, position, error)"
        " VALUES ('throughput', 1, 'import/NORDWIND/x', 1, 'e')"
    )
    todo = words_of(browser.get("/console/").text).partition("Suppliers")[0]
    assert f"paused {SUPPLIER} 1 import waits" in todo
    assert "Parked streams Throughput 1" in todo
    assert todo.index("Failed 2") < todo.index(f"paused {SUPPLIER}") < todo.index("Parked streams")
    browser = visit(suppliers=("FOREIGN",))
    todo = words_of(browser.get("/console/").text).partition("Suppliers")[0]
    assert "Nothing to do: no import waits for a user's decision." in todo


FINDINGS = [good("clock", Sentence("x", "x")), wrong("disk", Sentence("The disk is full.", "Voll."))]


@pytest.mark.parametrize("settings", [ConsoleSettings(examine=lambda: FINDINGS)], ids=["findings"])
@pytest.mark.usefixtures("book")
def test_findings_of_doctor_are_among_what_an_operator_has_to_do(operator: Browser, support: Browser) -> None:
    for browser, is_there in ((operator, True), (support, False)):
        browser.get("/console/system/")
        todo = words_of(browser.get("/console/").text).partition("Suppliers")[0]
        assert ("wrong Disk" in todo, "Clock" in todo) == (is_there, False)


def test_a_cause_of_failures_unfolds_to_examples_and_what_to_do(book: Ledger, visit: Visit) -> None:
    browser = visit()
    page = browser.get("/console/errors/").text
    words = words_of(page)
    assert "Failed imports 2" in words
    [cause] = re.findall(r'<th scope="row"><details>.*?</details>', page, re.DOTALL)
    shown = words_of(f"<main>{cause}")
    assert RULE in shown
    assert "To do: Compare the IBAN with the mandate" in shown
    assert re.search(r"Examples: E-2 \(NORDWIND\) , E/1 \(NORDWIND\)", shown)
    text = unescape(re.findall(r"<textarea[^>]*>(.*?)</textarea>", cause, re.DOTALL)[0])
    assert text.startswith("Number of accounts of NORDWIND that fail for the same cause: 2\n")
    assert "Yılmaz" not in page
    assert re.search(r'class="number">100%</td>', page)
    [listed] = re.findall(r'href="(/console/imports/export/[^"]*)"', page)
    assert browser.get(unescape(listed)).text.count(",ERRORED,") == 2
    whole = {"verb": "retry", "scope": "all"} | dict(
        re.findall(r'name="(supplier|code|path|fixed)" value="([^"]*)"', cause)
    )
    preview = followed(browser, "/console/imports/decide/", whole, at="/console/errors/")
    assert "2 imports" in words_of(preview.text)
    browser = visit("auditor")
    assert 'action="/console/imports/decide/"' not in browser.get("/console/errors/").text


def test_a_run_shows_its_progress_problems_warnings_and_failures_file(book: Ledger, visit: Visit) -> None:
    stage(book, person("T-1", "Groß"), run="tuesday")
    for number in ("W-1", "W-2"):
        stage(book, person(number, "Groß"), run="tuesday", warnings=("invalid_postcode@billing_postcode",))
    fails(book, stream_of(SUPPLIER, "T-1"))
    follow(book)
    browser = visit("operator")
    listed = browser.get("/console/runs/").text
    assert row_of(listed, "tuesday").startswith("tuesday Import NORDWIND running 3 1 0")
    page = browser.get(f"/console/runs/{SUPPLIER}/tuesday/").text
    words = words_of(page)
    assert "All 3 Waiting 2 Failed 1" in words
    assert "Refused 0 With warnings 2" in words
    assert re.search(r"invalid_postcode .*billing_postcode 2", words.partition("Warnings")[2])
    assert re.search(r"An IBAN is not valid\..*invalid_iban payment_instructions\[\]\.bank_account\.iban 1", words)
    assert 'hx-trigger="every 2s"' in page
    [failures] = re.findall(r'href="([^"]*)" download', page)
    lines = browser.get(unescape(failures)).text.splitlines()
    assert [line.split(",")[1] for line in lines[1:]] == ["T-1"]
    assert "Revert…" in words
    browser = visit(suppliers=(SUPPLIER,))
    assert "Revert…" not in words_of(browser.get(f"/console/runs/{SUPPLIER}/tuesday/").text)
    listed = browser.get("/console/imports/", params={"run": "tuesday", "supplier": SUPPLIER}).text
    assert f'href="/console/runs/{SUPPLIER}/tuesday/"' in listed
    assert browser.get("/console/runs/FOREIGN/tuesday/").status_code == 404
    assert browser.get(f"/console/runs/{SUPPLIER}/wednesday/").status_code == 404


def test_lists_have_their_totals(book: Ledger, visit: Visit) -> None:
    follow(book)
    browser = visit("operator")
    for path, total in (
        ("imports", "Imports 4"), ("runs", "Runs 1"), ("tasks", "Requested operations 0"),
        ("suppliers", "Suppliers 2"), ("users", "Users 1"), ("keys", "Keys 0"), ("personal-data", "data 0"),
    ):  # fmt: skip
        assert total in words_of(browser.get(f"/console/{path}/").text), path
    browser = visit(suppliers=("FOREIGN",))
    assert "Runs 0" in words_of(browser.get("/console/runs/").text)
    assert "Suppliers 1" in words_of(browser.get("/console/suppliers/").text)
