"""Access to personal data needs a reason, is an event, and is listed for auditors."""

from datetime import timedelta

import pytest

from eventstore.aggregates import disclosure
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections.queries.history import read_account_history
from projections.retention.erasure import erase
from schemas.base import MARKET_TIME
from tests.support.console import Visit, new_user, send, stage_account

CANARY = "<script>alert(1)</script> Anna rief an"


def test_showing_needs_a_reason_and_is_listed_for_auditors(ledger: Ledger, owner: Ledger, visit: Visit) -> None:
    stage_account(ledger, "NW", "A/1")
    path = "/console/personal-data/NW/A%2F1/"
    sam = visit(user_id=new_user(ledger, suppliers=["NW"], name="Sam Support"))
    assert send(sam, path, {"reason": " x "}, at="/console/").status_code == 400
    answer = send(sam, path, {"reason": CANARY}, at="/console/")
    assert answer.headers["location"] == "/console/imports/NW/A%2F1/"
    assert sam.get("/console/personal-data/").status_code == 403
    missing = send(sam, "/console/personal-data/NW/none/", {"reason": "why not"}, at="/console/")
    foreign = send(sam, "/console/personal-data/SW/A%2F1/", {"reason": "why not"}, at="/console/")
    assert (missing.status_code, foreign.status_code) == (404, 404)
    for suppliers, sees in ((["NW"], True), (["*"], True), (["SW"], False)):
        page = visit("auditor", suppliers=suppliers).get("/console/personal-data/").text
        assert ("Sam Support" in page, "&lt;script&gt;alert(1)" in page) == (sees, sees)
        assert "<script>alert" not in page
    erase(owner, "NW", "A/1", reason="r", at=now(), by="operator:test")
    page = visit("auditor").get("/console/personal-data/").text
    assert ("Anna rief an" in page, "Sam Support" in page) == (False, True)
    with ledger.connection() as connection:
        events = [recorded.event for recorded in read_account_history(connection, "NW", "A/1")]
    assert [type(event).__name__ for event in events] == ["ImportStaged", "PersonalDataShown", "SubjectErased"]


@pytest.mark.promise("pull-is-disclosure")
def test_a_pulled_account_is_listed_with_the_key_and_the_reason(ledger: Ledger, visit: Visit) -> None:
    stage_account(ledger, "NW", "A/1")
    command = disclosure.ShowPersonalData(user="Auditors:k1", what=("account",), reason="pull")
    ledger.execute(disclosure.stream_of("NW", "A/1"), command, at=now(), by="Auditors:k1")
    auditor = visit("auditor", suppliers=["NW"])
    page = auditor.get("/console/personal-data/").text
    assert ("Auditors:k1" in page, "<td>pull</td>" in page) == (True, True)


def test_accesses_are_filtered_by_user_account_and_day(ledger: Ledger, visit: Visit) -> None:
    users = [new_user(ledger, suppliers=["NW"], name=name) for name in ("Sam Support", "Eva Eins")]
    for external, user in (("A1", users[0]), ("A2", users[0]), ("A2", users[1])):
        command = disclosure.ShowPersonalData(user=user, what=("account",), reason="r")
        ledger.execute(disclosure.stream_of("NW", external), command, at=now(), by=f"user:{user}")
    today = now().astimezone(MARKET_TIME).date()
    auditor = visit("auditor", suppliers=["NW"])
    for chosen, number in (
        ({}, 3),
        ({"user": users[0]}, 2),
        ({"account": "A2"}, 2),
        ({"user": users[1], "account": "A1"}, 0),
        ({"day": today.isoformat()}, 3),
        ({"day": (today - timedelta(days=1)).isoformat()}, 0),
    ):
        page = auditor.get("/console/personal-data/", params=chosen).text
        assert (page.count("/console/imports/NW/"), f"<small>{number}</small>" in page) == (number, True), chosen
    assert auditor.get("/console/personal-data/", params={"day": "tomorrow"}).status_code == 400
    other = visit("auditor", suppliers=["SW"])
    assert "Sam Support" not in other.get("/console/personal-data/", params={"user": users[0]}).text
