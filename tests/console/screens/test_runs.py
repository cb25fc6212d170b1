"""A run is compared with a manifest: the page names accounts that the platform has altered, or certifies the run."""

import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from console.screens import runs
from eventstore.log.ledger import Ledger
from eventstore.proof.checkpoints import CheckpointCopies, LogKey
from importledger_client.manifest import Counting
from projections.queries.reconciliation import waiting_jobs
from tests.support.console import AUTHORITY, Browser, Visit, create_supplier, csrf_in, words_of
from tests.support.following import follow
from tests.support.make import an_account, encoded
from tests.support.staging import SUPPLIER, stage
from tests.support.threads import running
from workers.actors.process_imports import ImportProcessor
from workers.actors.reconcile import Reconciler
from workers.followers.sealer import Sealer

RUN = f"/console/runs/{SUPPLIER}/monday/"


@pytest.fixture
def book(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The accounts of a processed run."""
    monkeypatch.setattr(runs, "WAIT_S", 0.0)
    create_supplier(ledger, SUPPLIER)
    accounts = [an_account(SUPPLIER, number) for number in (1, 2, 3)]
    ImportProcessor(ledger, worker=lambda: 7).process([stage(ledger, account, run="monday") for account in accounts])
    follow(ledger)
    return accounts


def compared(browser: Browser, ledger: Ledger, book: list[dict[str, Any]], **fields: str) -> httpx.Response:
    """Send the manifest of a book until the accounts of the run are added up."""
    counting = Counting()
    for account in book:
        counting.add(encoded(account))
    file = {"file": ("m.json", encoded(counting.manifest(SUPPLIER)), "application/json")}
    for _ in range(2):  # the first request starts the job
        csrf = csrf_in(browser.get(RUN).text)
        answer = browser.post(f"{RUN}compare/", data={"csrf": csrf} | fields, files=file)
        with ledger.connection() as connection:
            jobs = waiting_jobs(connection)
        Reconciler(ledger, worker=lambda: 7, stop=threading.Event()).work(jobs)
    return answer


def test_a_run_whose_totals_are_equal_is_certified(
    ledger: Ledger, book: list[dict[str, Any]], support: Browser, folder: Path
) -> None:
    sealer = Sealer(ledger, LogKey.of("A" * 43), CheckpointCopies(folder.as_uri()), AUTHORITY, every_s=3600)
    with running(sealer.start):
        answer = compared(support, ledger, book)
        assert "and of the platform are equal." in words_of(support.get(answer.headers["location"]).text)
        certificate = compared(support, ledger, book, certificate="yes")
    assert certificate.headers["content-disposition"] == 'attachment; filename="certificate.json"'
    content = certificate.json()
    assert (content["run"], content["issued_to"], bool(content["signature"])) == ("monday", "Nordwind Energie", True)


@pytest.mark.parametrize(
    ("language", "sentence", "groups"),
    [
        ("en", "The platform has lost or altered this account.", "Accounts differ in 2 of 4,096 groups of accounts."),
        (
            "de",
            "Die Plattform hat dieses Konto verloren oder geändert.",
            "In 2 von 4.096 Gruppen von Konten weichen Konten ab.",
        ),
    ],
)
def test_altered_accounts_are_named_and_others_counted(
    ledger: Ledger, owner: Ledger, book: list[dict[str, Any]], visit: Visit, language: str, sentence: str, groups: str
) -> None:
    with owner.connection() as connection:
        connection.execute(
            "UPDATE platform.customer SET family_name = 'Other' FROM platform.service_account AS a"
            " WHERE a.account_number = customer.account_number AND external_account_number = %s",
            (book[0]["external_account_number"],),
        )
    book[1]["customers"][0]["family_name"] = "Other"
    browser = visit("operator", language=language)
    answer = compared(browser, ledger, book)
    shown = words_of(browser.get(answer.headers["location"]).text)
    numbers = [account["external_account_number"] for account in book]
    assert f"{numbers[0]} {sentence}" in shown
    assert groups in shown
    assert not any(number in shown for number in numbers[1:])
