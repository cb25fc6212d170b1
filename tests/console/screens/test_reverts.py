"""Reverts and releases on pages: numbers first, then a reason and the typed name; the relay carries them out."""

import pytest

from console.screens import reverts
from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import ImportReverted, stream_of
from eventstore.log.ledger import Ledger
from projections import FOLLOWING
from tests.support.console import Browser, carrying_out, create_supplier, send, words_of
from tests.support.following import follow
from tests.support.make import an_account
from tests.support.running import wait_for
from tests.support.staging import SUPPLIER, stage
from tests.support.threads import running
from workers.actors.process_imports import ImportProcessor
from workers.followers.projector import Projector

HOME = f"/console/suppliers/{SUPPLIER}/"
EXTERNAL = str(an_account(SUPPLIER, 1)["external_account_number"])


def push(ledger: Ledger, *numbers: int) -> None:
    streams = [stage(ledger, an_account(SUPPLIER, number), run="monday") for number in numbers]
    ImportProcessor(ledger, worker=lambda: 7).process(streams)
    follow(ledger)


def test_a_run_is_reverted_and_an_account_released_with_numbers_first(
    database: PostgresUrls, ledger: Ledger, owner: Ledger, monkeypatch: pytest.MonkeyPatch, operator: Browser
) -> None:
    create_supplier(ledger, SUPPLIER)
    push(ledger, 1, 2)
    listed, account = f"/console/runs/{SUPPLIER}/monday/", f"/console/imports/{SUPPLIER}/{EXTERNAL}/"
    follow(ledger)
    assert "Revert…" in words_of(operator.get(listed).text)
    run = {"verb": "revert", "run": "monday", "external": ""}
    shown = words_of(operator.get(f"{HOME}decide/", params=run).text)
    assert "2 accounts can be reverted" in shown
    assert "importledger revert NORDWIND --run monday --yes --reason" in shown
    confirmed = run | {"reason": "wrong mapping", "confirm": "tuesday"}
    assert send(operator, f"{HOME}decided/", confirmed, at=listed).status_code == 400
    with carrying_out(database), running(Projector(ledger, FOLLOWING).start):
        assert send(operator, f"{HOME}decided/", confirmed | {"confirm": "monday"}, at=listed).status_code == 303
        wait_for(lambda: "Reverted: 2" in words_of(operator.get("/console/tasks/").text), "reverted")
    event = ledger.history(stream_of(SUPPLIER, EXTERNAL))[-1].event
    assert isinstance(event, ImportReverted)
    history = words_of(operator.get(account).text)
    assert f"Account {event.account_number} reverted" in history
    assert event.reason not in history, "the id of the typed reason"
    push(ledger, 1)
    one = {"verb": "revert", "external": EXTERNAL}
    assert "1 account can be reverted" in words_of(operator.get(f"{HOME}decide/", params=one).text)
    release = {"verb": "release"}
    with monkeypatch.context() as patched:
        patched.setattr(reverts, "MOST_AT_ONCE", 0)
        shown = words_of(operator.get(f"{HOME}decide/", params=release).text)
        assert "More than 0 accounts to release 1 accounts are processed." in shown
    assert "1 account to release" in words_of(operator.get(f"{HOME}decide/", params=release).text)
    with carrying_out(database):
        send(operator, f"{HOME}decided/", release | {"reason": "checked", "confirm": SUPPLIER}, at=HOME)
        wait_for(lambda: "Released" in words_of(operator.get(account).text), "released")
    follow(ledger)
    assert "Released" in words_of(operator.get(listed).text)
    shown = words_of(operator.get(f"{HOME}decide/", params=one).text)
    assert "0 accounts can be reverted" in shown
    assert "released: 1" in shown


def test_what_does_not_exist_cannot_be_reverted(ledger: Ledger, operator: Browser) -> None:
    create_supplier(ledger, SUPPLIER)
    for form in (
        {"verb": "revert"},
        {"verb": "revert", "run": "nowhere"},
        {"verb": "revert", "external": "nobody"},
        {"verb": "release", "external": "nobody"},
        {"verb": "erase", "run": "monday"},
    ):
        assert operator.get(f"{HOME}decide/", params=form).status_code == 404, form
        sent = form | {"reason": "r", "confirm": "x"}
        assert send(operator, f"{HOME}decided/", sent, at=HOME).status_code == 404, form
