"""The page of one import: its state at present and at other times, reasons, payloads and platform records."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from html import unescape
from typing import Any

import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import CancelImport, FailImport, RetryImport, stream_of
from eventstore.aggregates.supplier import CreateSupplier
from eventstore.aggregates.supplier import stream_of as supplier_stream
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections.auxiliary.refused_attempts import Attempt
from schemas.base import MARKET_TIME
from tests.support.console import Browser, carrying_out, console_app, send, signed_in, visitor, words_of
from tests.support.databases import owner_of
from tests.support.make import an_account, changed, start
from tests.support.problems import INVALID, MISSING
from tests.support.refused import write
from tests.support.running import wait_for
from tests.support.staging import SUPPLIER, stage
from workers.actors.process_imports import ImportProcessor
from workers.operations import erase_person

ACCOUNT = changed(an_account(SUPPLIER, 1), "Yılmaz", "customers", 0, "family_name")
NUMBER = str(ACCOUNT["external_account_number"])
STREAM = stream_of(SUPPLIER, NUMBER)
PAGE = f"/console/imports/{SUPPLIER}/{NUMBER}/"


@pytest.fixture
def supplier(ledger: Ledger) -> Ledger:
    ledger.execute(supplier_stream(SUPPLIER), CreateSupplier(), at=now(), by="t")
    return ledger


@contextmanager
def visiting(database: PostgresUrls, ledger: Ledger, role: Any = "support", **headers: str) -> Iterator[Browser]:
    with console_app(database) as app, visitor(app, signed_in(ledger, role=role), **headers) as browser:
        yield browser


def fails(ledger: Ledger, *problems: str) -> None:
    ledger.execute(STREAM, start(worker=3), at=now(), by="worker:3")
    version = ledger.load([STREAM])[STREAM].version
    failed = FailImport(start=version, code=INVALID, detail="No.", problems=problems)
    ledger.execute(STREAM, failed, at=now(), by="worker:3")


def test_times_of_the_platform_are_german_and_only_personal_fields_are_masked(
    supplier: Ledger, database: PostgresUrls
) -> None:
    ImportProcessor(supplier, worker=lambda: 7).process([stage(supplier, ACCOUNT)])
    with visiting(database, supplier) as browser:
        page = browser.get(f"{PAGE}?tab=platform").text
        [reading] = re.findall(r'id="t-reading".*?</details>', page, re.DOTALL)
        assert "1 Jan 2022, 00:00:00 CET" in reading
        assert "2021-12-31" not in page
        assert "•••" not in reading.replace("E•••", "")  # numbers of messages
        [customer] = re.findall(r'id="t-customer".*?</details>', page, re.DOTALL)
        assert "<td>1</td>" in customer
        assert ("Y•••" in customer, "Yılmaz" in customer) == (True, False)


def test_an_erased_account_says_so_first_and_why(supplier: Ledger, database: PostgresUrls) -> None:
    ImportProcessor(supplier, worker=lambda: 7).process([stage(supplier, ACCOUNT)])
    with closing(owner_of(supplier)) as owner:
        erase_person(owner, SUPPLIER, NUMBER, "request 17", by="operator:t")
    for role in ("auditor", "support"):
        with visiting(database, supplier, role) as browser:
            words = words_of(browser.get(PAGE).text)
            assert f"{NUMBER} Person erased The person was erased." in words
            assert "the account exists" not in words
            assert "Reason: request 17" in words
    with visiting(database, supplier, **{"Accept-Language": "de"}) as browser:
        assert f"{NUMBER} Person gelöscht Die Person wurde gelöscht." in words_of(browser.get(PAGE).text)


def test_the_reason_of_an_erasure_that_was_typed_on_a_page_is_shown(supplier: Ledger, database: PostgresUrls) -> None:
    stage(supplier, ACCOUNT)
    with carrying_out(database), visiting(database, supplier, "operator") as browser:
        send(browser, f"{PAGE}erase/", {"reason": "DSR-1", "typed": NUMBER}, at=PAGE)
        wait_for(lambda: "Reason: DSR-1" in words_of(browser.get(PAGE).text), "the reason is shown")


@pytest.mark.promise("reasons-masked-by-payload")
@pytest.mark.parametrize("command", [CancelImport, RetryImport])
def test_a_reason_is_shown_unless_it_holds_data_of_the_person(
    supplier: Ledger, database: PostgresUrls, command: Any
) -> None:
    iban = ACCOUNT["payment_instructions"][0]["bank_account"]["iban"]
    spaced = " ".join(iban[place : place + 4] for place in range(0, len(iban), 4))
    reasons = ("duplicate, ticket 99", "Frau YILMAZ has called", f"account {spaced}", f"{NUMBER} is wrong")
    for reason in reasons:
        stage(supplier, ACCOUNT)
        if command is RetryImport:
            fails(supplier)
        supplier.execute(STREAM, command(reason=reason), at=now(), by="operator:t")
        if command is RetryImport:
            supplier.execute(STREAM, CancelImport(reason=""), at=now(), by="operator:t")
    with visiting(database, supplier) as browser:
        words = words_of(browser.get(PAGE).text)
        assert words.count("Reason: masked") == 2
        assert [reason in words for reason in reasons] == [True, False, False, True]
        send(browser, f"/console/personal-data/{SUPPLIER}/{NUMBER}/", {"reason": "ticket 7"}, at=PAGE)
        words = words_of(browser.get(PAGE).text)
        assert all(reason in words for reason in reasons)


def test_a_day_or_a_time_shows_what_was_known_then_and_before_it_that_nothing_was(
    supplier: Ledger, database: PostgresUrls
) -> None:
    stage(supplier, ACCOUNT)
    staged_at = supplier.history(STREAM)[0].recorded_at.astimezone(MARKET_TIME)
    wait_for(lambda: now() - staged_at > timedelta(seconds=2), "the time has passed")
    fails(supplier)
    with visiting(database, supplier) as browser:
        assert 'type="datetime-local"' in browser.get(PAGE).text
        then = browser.get(PAGE, params={"as_of": f"{staged_at + timedelta(seconds=1):%Y-%m-%dT%H:%M:%S}"})
        assert "Waiting" in words_of(then.text).partition("State at")[0]
        for before in (f"{staged_at - timedelta(days=1):%Y-%m-%d}", "2026-01-01T14:03", "0"):
            page = browser.get(PAGE, params={"as_of": before})
            assert (page.status_code, "Not yet received" in page.text) == (200, True)
        assert browser.get(PAGE, params={"as_of": "2026-13-01T14:03"}).status_code == 400


def test_payloads_are_named_by_date_run_and_sender(supplier: Ledger, database: PostgresUrls) -> None:
    stage(supplier, ACCOUNT, run="monday")
    stage(supplier, changed(ACCOUNT, "20099", "billing_postcode"), run="tuesday")
    with visiting(database, supplier) as browser:
        page = browser.get(f"{PAGE}?tab=received").text
        names = re.findall(r"<option value=\"\d+\"[^>]*>([^<]*)</option>", page)
        assert len(names) == 4
        day = f"{now().astimezone(MARKET_TIME):%Y, %H:}"
        for name, run in zip(names, ("tuesday", "monday") * 2, strict=True):
            assert (day in name, name.endswith(f", run {run}, tester")) == (True, True), name
        assert ">Version" not in page


def test_the_path_of_a_missing_document_is_shown_to_support(supplier: Ledger, database: PostgresUrls) -> None:
    stage(supplier, ACCOUNT)
    path = ACCOUNT["statements"][0]["statement_path"]
    with visiting(database, supplier) as browser:
        assert path not in browser.get(f"{PAGE}?tab=received").text
        fails(supplier, MISSING)
        page = unescape(browser.get(f"{PAGE}?tab=received").text)
        assert f'statement_path</span>: <span class="value">{path}</span>' in page
        assert re.search(rf"<strong>[^<]*{re.escape(path)}</strong>", page)
        assert "Yılmaz" not in page


def test_an_account_that_was_never_accepted_shows_sentences(supplier: Ledger, database: PostgresUrls) -> None:
    with supplier.connection() as connection:
        attempt = Attempt(
            supplier=SUPPLIER, external_account_number="R-1", attempted_at=now(), operation="create_account",
            code=INVALID, problems=("blank@customers.0.family_name",),
        )  # fmt: skip
        write(connection, attempt)
    for language, sentence in (("en", "family name must not be blank."), ("de", "nicht leer sein.")):
        with visiting(database, supplier, **{"Accept-Language": language}) as browser:
            words = words_of(browser.get(f"/console/imports/{SUPPLIER}/R-1/").text)
            assert sentence in words
            assert "account_failed_validation" in words
            assert "blank in customers.0.family_name" in words.replace(" in ", " in ")


def test_a_cause_has_its_value_its_german_field_and_what_to_do(supplier: Ledger, database: PostgresUrls) -> None:
    stage(supplier, ACCOUNT, run="monday")
    fails(supplier, "blank@customers.0.family_name", "invalid_iban@payment_instructions.0.bank_account.iban")
    with visiting(database, supplier, **{"Accept-Language": "de"}) as browser:
        page = browser.get(PAGE).text
        words = words_of(page)
        assert "Ursache (2 Fehler)" in words
        assert "Feld Nachname customers.0.family_name Wert Y••• Zu tun " in words
        assert "Yılmaz" not in page
        [text] = re.findall(r'<textarea[^>]*id="importer-text"[^>]*>(.*?)</textarea>', page, re.DOTALL)
        assert text.startswith(f"Konto {NUMBER} von {SUPPLIER} ist im Lauf monday fehlgeschlagen:")
        assert ("(blank, customers.0.family_name)" in text, "Y•••" in text) == (True, False)
        received = words_of(browser.get(f"{PAGE}?tab=received").text)
        assert "billing_postcode Postleitzahl : 60•••" in received
        send(browser, f"/console/personal-data/{SUPPLIER}/{NUMBER}/", {"reason": "ticket 7"}, at=PAGE)
        shown = browser.get(PAGE).text
        assert "Name Clara Yılmaz Adresse Schillerstraße" in words_of(shown)
        [text] = re.findall(r'<textarea[^>]*id="importer-text"[^>]*>(.*?)</textarea>', shown, re.DOTALL)
        assert "Yılmaz" not in text


def test_each_tab_has_its_part_and_keeps_the_time(supplier: Ledger, database: PostgresUrls) -> None:
    ImportProcessor(supplier, worker=lambda: 7).process([stage(supplier, ACCOUNT)])
    position = supplier.history(STREAM)[-1].position
    parts = {"history": "History", "received": "Payload", "platform": "Platform records", "proof": "Proof"}
    parts["attached"] = "Attached records"
    with visiting(database, supplier) as browser:
        for tab, heading in parts.items():
            page = browser.get(PAGE, params={"tab": tab, "as_of": str(position)}).text
            headings = re.findall(r'<h2 id="(?:line|payload|platform|proof|records)-head">([^<]*)<', page)
            assert headings == [heading]
            [current] = re.findall(r'<a href="([^"]*)" aria-current="page">[^<]*</a>(?=.*</nav>)', page)[-1:]
            assert unescape(current) == f"{PAGE}?tab={tab}&as_of={position}"
        assert browser.get(PAGE, params={"tab": "nonsense"}).text.count('id="line-head"') == 1
