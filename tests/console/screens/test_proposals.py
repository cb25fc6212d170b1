"""Proposals on pages: the usual forms propose, another person sees the preview and approves or rejects."""

import html
import re
from collections.abc import Iterator
from typing import Any

import pytest

from console.screens import proposals
from console.settings import ConsoleSettings
from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import FailImport, ImportRetried, ImportReverted, stream_of
from eventstore.aggregates.owner_task import SECOND_PERSON
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from tests.support.console import (
    COOKIE,
    App,
    Browser,
    Visit,
    carrying_out,
    console_app,
    create_supplier,
    new_user,
    send,
    stage_account,
    visitor,
    words_of,
)
from tests.support.following import follow
from tests.support.make import an_account, start
from tests.support.running import wait_for
from tests.support.staging import SUPPLIER, stage
from workers.actors.process_imports import ImportProcessor
from workers.proposals import MANY

HOME = f"/console/suppliers/{SUPPLIER}/"
EXTERNAL = str(an_account(SUPPLIER, 1)["external_account_number"])
ACCOUNT = f"/console/imports/{SUPPLIER}/{EXTERNAL}/"
PROPOSALS = "/console/proposals/"
REVERT = {"verb": "revert", "external": EXTERNAL, "reason": "wrong mapping", "confirm": EXTERNAL}
PROPOSED = "The operation was proposed. Another person must approve it."


@pytest.fixture
def app(database: PostgresUrls, ledger: Ledger) -> Iterator[App]:
    """The console where every action needs a second person, and a processed account."""
    create_supplier(ledger, SUPPLIER)
    streams = [stage(ledger, an_account(SUPPLIER, 1), run="monday")]
    ImportProcessor(ledger, worker=lambda: 7).process(streams)
    follow(ledger)
    with console_app(database, settings=ConsoleSettings(four_eyes=[*SECOND_PERSON.values()])) as app:
        yield app


@pytest.fixture
def anna(ledger: Ledger, visit: Visit) -> Browser:
    return visit(user_id=new_user(ledger, role="operator", name="Anna"))


@pytest.fixture
def ben(ledger: Ledger, visit: Visit) -> Browser:
    return visit(user_id=new_user(ledger, role="operator", name="Ben"))


def proposals_in(page: str) -> list[str]:
    """Return the ids of the proposals of a page."""
    return [part.partition('"')[0] for part in page.split('aria-labelledby="t_')[1:]]


@pytest.mark.promise("second-person", "second-person-preview")
def test_an_account_is_proposed_by_one_user_and_reverted_after_another_has_approved(
    ledger: Ledger, database: PostgresUrls, anna: Browser, ben: Browser
) -> None:
    shown = anna.get(f"{HOME}decide/", params={"verb": "revert", "external": EXTERNAL})
    assert "Propose" in words_of(shown.text)
    assert send(anna, f"{HOME}decided/", REVERT, at=HOME).status_code == 303
    page = anna.get("/console/tasks/").text
    assert PROPOSED in words_of(page)
    assert "waits for another person" in words_of(page)
    own = anna.get(PROPOSALS).text
    assert "You have proposed this" in words_of(own)
    [number] = proposals_in(own)
    decide = f"{PROPOSALS}t_{number}/"
    assert "/approve/" not in own
    refused = send(anna, f"{decide}approve/", at=PROPOSALS)
    assert "You must not approve your own" in words_of(refused.text)
    with carrying_out(database):
        assert "1 operation waits for another person" in words_of(ben.get("/console/").text)
        seen = words_of(ben.get(PROPOSALS).text)
        for text in ("Revert accounts", EXTERNAL, "Accounts to revert 1", "Proposed by Anna", "wrong mapping"):
            assert text in seen
        assert send(ben, f"{decide}approve/", at=PROPOSALS).status_code == 303
        wait_for(lambda: "Reverted: 1" in words_of(ben.get("/console/tasks/").text), "reverted")
        ended = words_of(ben.get(ACCOUNT).text)
        assert "Anna" in ended
        assert "Approved by Ben" in ended
        again = send(ben, f"{decide}approve/", at=ACCOUNT)
        assert "The proposal was decided already." in words_of(again.text)
        assert "No proposal waits" in words_of(ben.get(PROPOSALS).text)
    assert isinstance(ledger.history(stream_of(SUPPLIER, EXTERNAL))[-1].event, ImportReverted)


@pytest.mark.promise("second-person")
def test_the_forms_of_listed_actions_propose_and_a_proposal_is_rejected_with_a_reason(
    ledger: Ledger, anna: Browser, ben: Browser, support: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proposals, "AT_ONCE", 3)
    for number in range(MANY + 1):
        stage_account(ledger, SUPPLIER, f"E-{number}")
        for step in (start(), FailImport(start=2, code="c", detail="D.", problems=(), rules_edition="")):
            ledger.execute(f"import/{SUPPLIER}/E-{number}", step, at=now(), by="worker:7")
    chosen = [f"{SUPPLIER}/E-{number}" for number in range(MANY + 1)]
    forms: dict[str, dict[str, Any]] = {
        f"{ACCOUNT}erase/": {"reason": "DSR-1", "typed": EXTERNAL},
        f"{HOME}status/": {"status": "complete", "confirm": SUPPLIER, "reason": "all done"},
        f"{HOME}decided/": {"verb": "release", "confirm": SUPPLIER, "reason": "checked"},
        "/console/imports/decided/": {"verb": "retry", "chosen": chosen, "reason": "fixed"},
    }
    for path, fields in forms.items():
        assert send(anna, path, fields, at=HOME).status_code == 303, path
        assert PROPOSED in words_of(anna.get(HOME).text), path
    few = {"verb": "retry", "chosen": chosen[:1], "reason": "fixed"}
    assert send(anna, "/console/imports/decided/", few, at=HOME).status_code == 303
    assert "Imports that are processed again: 1." in words_of(anna.get(HOME).text)
    assert isinstance(ledger.history(f"import/{SUPPLIER}/E-0")[-1].event, ImportRetried)
    assert not isinstance(ledger.history(f"import/{SUPPLIER}/E-1")[-1].event, ImportRetried)
    first = ben.get(PROPOSALS).text
    assert "Proposals 4" in words_of(first)
    [following] = re.findall(r'rel="next" href="([^"]+)"', first)
    [retry] = proposals_in(ben.get(html.unescape(following)).text)
    erasure, completion, _ = proposals_in(first)
    changed = send(ben, f"{PROPOSALS}t_{retry}/approve/", at=PROPOSALS)
    assert "The effect of the operation would differ from its preview" in words_of(changed.text), (
        "one was retried already"
    )
    for reason, status in (("", 400), ("too early", 303)):
        sent = send(ben, f"{PROPOSALS}t_{completion}/reject/", {"reason": reason}, at=PROPOSALS)
        assert sent.status_code == status
    assert "Rejected by Ben: too early" in words_of(ben.get("/console/tasks/").text)
    assert "You may neither approve nor reject this proposal." in words_of(support.get(PROPOSALS).text)
    refused = send(support, f"{PROPOSALS}t_{erasure}/approve/", at=HOME)
    assert "right to request this operation" in words_of(refused.text)


def test_without_the_setting_there_is_no_page_in_the_navigation(
    app: App, database: PostgresUrls, anna: Browser
) -> None:
    assert PROPOSALS in anna.get(HOME).text
    with console_app(database, loop_of=app) as plain, visitor(plain, {COOKIE: anna.cookies[COOKIE]}) as browser:
        assert PROPOSALS not in browser.get(HOME).text
        assert "Propose" not in words_of(browser.get(ACCOUNT).text)
        assert PROPOSALS not in browser.get("/console/").text
