"""A run is compared with a manifest: the page names the accounts that the platform has altered."""

import threading

import pytest

from console.screens import runs
from embedded.postgres import PostgresUrls
from eventstore.aggregates import supplier
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from importledger_client.manifest import Counting
from projections.queries.reconciliation import waiting_jobs
from tests.support.console import console_app, csrf_in, signed_in, visitor, words_of
from tests.support.following import follow
from tests.support.make import an_account, encoded
from tests.support.staging import SUPPLIER, stage
from workers.actors.process_imports import ImportProcessor
from workers.actors.reconcile import Reconciler

RUN = f"/console/runs/{SUPPLIER}/monday/"


def add_up(ledger: Ledger) -> None:
    with ledger.connection() as connection:
        jobs = waiting_jobs(connection)
    Reconciler(ledger, worker=lambda: 7, stop=threading.Event()).work(jobs)


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
    database: PostgresUrls,
    ledger: Ledger,
    owner: Ledger,
    monkeypatch: pytest.MonkeyPatch,
    language: str,
    sentence: str,
    groups: str,
) -> None:
    monkeypatch.setattr(runs, "WAIT_S", 0.0)
    ledger.execute(supplier.stream_of(SUPPLIER), supplier.CreateSupplier(), at=now(), by="t")
    book = [an_account(SUPPLIER, number) for number in (1, 2, 3)]
    streams = [stage(ledger, account, run="monday") for account in book]
    ImportProcessor(ledger, worker=lambda: 7).process(streams)
    follow(ledger)
    with owner.connection() as connection:
        connection.execute(
            "UPDATE platform.customer SET family_name = 'Other' FROM platform.service_account AS a"
            " WHERE a.account_number = customer.account_number AND external_account_number = %s",
            (book[0]["external_account_number"],),
        )
    book[1]["customers"][0]["family_name"] = "Other"
    counting = Counting()
    for account in book:
        counting.add(encoded(account))
    file = {"file": ("m.json", encoded(counting.manifest(SUPPLIER)), "application/json")}
    cookies = signed_in(ledger, role="operator")
    with console_app(database) as app, visitor(app, cookies, language=language) as browser:
        for _ in range(2):  # the first request starts the job
            csrf = csrf_in(browser.get(RUN).text)
            answer = browser.post(f"{RUN}compare/", data={"csrf": csrf}, files=file)
            assert answer.status_code == 303
            add_up(ledger)
        shown = words_of(browser.get(answer.headers["location"]).text)
    numbers = [account["external_account_number"] for account in book]
    assert f"{numbers[0]} {sentence}" in shown
    assert groups in shown
    assert numbers[1] not in shown
    assert numbers[2] not in shown
