"""The page of one import: its state at present and at other times, reasons, payloads and platform records."""

import asyncio
import re
from contextlib import closing
from datetime import timedelta
from html import unescape
from typing import Any

import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import CancelImport, FailImport, RetryImport, stream_of
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from schemas.base import MARKET_TIME
from tests.support.console import Browser, Visit, carrying_out, create_supplier, send, words_of
from tests.support.databases import owner_of
from tests.support.make import an_account, changed, start
from tests.support.problems import INVALID, MISSING
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
    create_supplier(ledger, SUPPLIER)
    return ledger


def fails(ledger: Ledger, *problems: str) -> None:
    ledger.execute(STREAM, start(worker=3), at=now(), by="worker:3")
    version = ledger.load([STREAM])[STREAM].version
    failed = FailImport(start=version, code=INVALID, detail="No.", problems=problems)
    ledger.execute(STREAM, failed, at=now(), by="worker:3")


def test_times_of_the_platform_are_german_and_only_personal_fields_are_masked(
    supplier: Ledger, support: Browser
) -> None:
    ImportProcessor(supplier, worker=lambda: 7).process([stage(supplier, ACCOUNT)])
    page = support.get(f"{PAGE}?tab=platform").text
    [reading] = re.findall(r'id="t-reading".*?</details>', page, re.DOTALL)
    assert "1 Jan 2022, 00:00:00 CET" in reading
    assert "2021-12-31" not in page
    assert "•••" not in reading.replace("E•••", "")  # numbers of messages
    [customer] = re.findall(r'id="t-customer".*?</details>', page, re.DOTALL)
    assert "<td>1</td>" in customer
    assert ("Y•••" in customer, "Yılmaz" in customer) == (True, False)


def test_an_erased_account_says_so_first_and_why(supplier: Ledger, visit: Visit) -> None:
    ImportProcessor(supplier, worker=lambda: 7).process([stage(supplier, ACCOUNT)])
    with closing(owner_of(supplier)) as owner:
        erase_person(owner, SUPPLIER, NUMBER, "request 17", by="operator:t")
    for role in ("auditor", "support"):
        browser = visit(role)
        words = words_of(browser.get(PAGE).text)
        assert f"{NUMBER} Person erased The person was erased." in words
        assert "the account exists" not in words
        assert "Reason: request 17" in words
    browser = visit(language="de")
    assert f"{NUMBER} Person gelöscht Die Person wurde gelöscht." in words_of(browser.get(PAGE).text)


def test_the_reason_of_an_erasure_that_was_typed_on_a_page_is_shown(
    supplier: Ledger, database: PostgresUrls, operator: Browser
) -> None:
    stage(supplier, ACCOUNT)
    with carrying_out(database):
        send(operator, f"{PAGE}erase/", {"reason": "DSR-1", "typed": NUMBER}, at=PAGE)
        wait_for(lambda: "Reason: DSR-1" in words_of(operator.get(PAGE).text), "the reason is shown")


@pytest.mark.promise("reasons-masked-by-payload")
@pytest.mark.parametrize("command", [CancelImport, RetryImport])
def test_a_reason_is_shown_unless_it_holds_data_of_the_person(supplier: Ledger, command: Any, support: Browser) -> None:
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
    words = words_of(support.get(PAGE).text)
    assert words.count("Reason: masked") == 2
    assert [reason in words for reason in reasons] == [True, False, False, True]
    send(support, f"/console/personal-data/{SUPPLIER}/{NUMBER}/", {"reason": "ticket 7"}, at=PAGE)
    words = words_of(support.get(PAGE).text)
    assert all(reason in words for reason in reasons)


def test_a_day_or_a_time_shows_what_was_known_then_and_before_it_that_nothing_was(
    supplier: Ledger, support: Browser
) -> None:
    stage(supplier, ACCOUNT)
    staged_at = supplier.history(STREAM)[0].recorded_at.astimezone(MARKET_TIME)
    support.runner.run(asyncio.sleep(2.1))  # the event loop runs: Postgres waits for a client that it admits
    fails(supplier)
    assert 'type="datetime-local"' in support.get(PAGE).text
    then = support.get(PAGE, params={"as_of": f"{staged_at + timedelta(seconds=1):%Y-%m-%dT%H:%M:%S}"})
    assert "Waiting" in words_of(then.text).partition("State at")[0]
    for before in (f"{staged_at - timedelta(days=1):%Y-%m-%d}", "2026-01-01T14:03", "0"):
        page = support.get(PAGE, params={"as_of": before})
        assert (page.status_code, "Not yet received" in page.text) == (200, True)
    assert support.get(PAGE, params={"as_of": "2026-13-01T14:03"}).status_code == 400


def test_payloads_are_named_by_date_run_and_sender(supplier: Ledger, support: Browser) -> None:
    stage(supplier, ACCOUNT, run="monday")
    stage(supplier, changed(ACCOUNT, "20099", "billing_postcode"), run="tuesday")
    page = support.get(f"{PAGE}?tab=received").text
    names = re.findall(r"<option value=\"\d+\"[^>]*>([^<]*)</option>", page)
    assert len(names) == 4
    day = f"{now().astimezone(MARKET_TIME):%Y, %H:}"
    for name, run in zip(names, ("tuesday", "monday") * 2, strict=True):
        assert (day in name, name.endswith(f", run {run}, tester")) == (True, True), name
    assert ">Version" not in page


def test_the_path_of_a_missing_document_is_shown_to_support(supplier: Ledger, support: Browser) -> None:
    stage(supplier, ACCOUNT)
    path = ACCOUNT["statements"][0]["statement_path"]
    assert path not in support.get(f"{PAGE}?tab=received").text
    fails(supplier, MISSING)
    page = unescape(support.get(f"{PAGE}?tab=received").text)
    assert f'statement_path</span>: <span class="value">{path}</span>' in page
    assert re.search(rf"<strong>[^<]*{re.escape(path)}</strong>", page)
    assert "Yılmaz" not in page


def test_a_cause_has_its_value_its_german_field_and_what_to_do(supplier: Ledger, visit: Visit) -> None:
    stage(supplier, ACCOUNT, run="monday")
    fails(supplier, "blank@customers.0.family_name", "invalid_iban@payment_instructions.0.bank_account.iban")
    browser = visit(language="de")
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


def test_each_tab_has_its_part_and_keeps_the_time(supplier: Ledger, support: Browser) -> None:
    ImportProcessor(supplier, worker=lambda: 7).process([stage(supplier, ACCOUNT)])
    position = supplier.history(STREAM)[-1].position
    parts = {"history": "History", "received": "Payload", "platform": "Platform records", "proof": "Proof"}
    parts["attached"] = "Attached records"
    for tab, heading in parts.items():
        page = support.get(PAGE, params={"tab": tab, "as_of": str(position)}).text
        headings = re.findall(r'<h2 id="(?:line|payload|platform|proof|records)-head">([^<]*)<', page)
        assert headings == [heading]
        [current] = re.findall(r'<a href="([^"]*)" aria-current="page">[^<]*</a>(?=.*</nav>)', page)[-1:]
        assert unescape(current) == f"{PAGE}?tab={tab}&as_of={position}"
    assert support.get(PAGE, params={"tab": "nonsense"}).text.count('id="line-head"') == 1
