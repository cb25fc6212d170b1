"""Saved filters: for their user only, on every page, until they are removed or the user is erased."""

import string
from urllib.parse import urlencode

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.access.saved_filters import (
    MAX_FILTERS,
    SavedFilter,
    address_to_save,
    read_filters,
    stored_filters,
)
from embedded.postgres import PostgresUrls
from eventstore.log.ledger import Ledger
from tests.support.console import AUTHORITY, Browser, Visit, new_user, send, words_of
from tests.support.databases import Admin
from tests.support.owner_tasks import Tasks

IMPORTS = "/console/imports/"
NARROWED = f"{IMPORTS}?supplier=NORD&status=ERRORED&search=gAAAA&after=%5B1%5D"


def stored_texts(database: PostgresUrls) -> list[str]:
    with psycopg.connect(database.admin) as admin:
        return [text for (text,) in admin.execute("SELECT saved_filters FROM user_details WHERE saved_filters <> ''")]


@pytest.mark.promise("saved-filters")
def test_a_saved_filter_is_on_every_page_of_its_user_and_in_clear_nowhere(
    ledger: Ledger, database: PostgresUrls, visit: Visit, admin: Admin
) -> None:
    users = [new_user(ledger, name=name) for name in ("Anna", "Ben")]
    anna, ben = (visit(user_id=user) for user in users)
    assert "Saved filters" in anna.get(IMPORTS).text
    saved = send(anna, "/console/filters/", {"name": " North   fails ", "here": NARROWED}, at=IMPORTS)
    assert (saved.status_code, saved.headers["location"]) == (303, f"{IMPORTS}?supplier=NORD&status=ERRORED")
    assert "The filter was saved." in words_of(anna.get(IMPORTS).text)
    [text] = stored_texts(database)
    assert not any(word in text for word in ("North", "NORD", "imports"))
    anna = visit(user_id=users[0])  # in another session
    for page in (IMPORTS, "/console/errors/", "/console/shortcuts/"):
        shown = anna.get(page).text
        assert f'<a href="{IMPORTS}?supplier=NORD&amp;status=ERRORED">North fails</a>' in shown, page
    send(anna, "/console/filters/", {"name": "North fails", "here": f"{IMPORTS}?run=may"}, at=IMPORTS)
    replaced = anna.get(IMPORTS).text
    assert (f'"{IMPORTS}?run=may">North fails' in replaced, replaced.count("North fails</a>")) == (True, 1)
    assert "North fails" not in ben.get(IMPORTS).text
    # Anna's text is nothing in another user's row
    admin.execute("UPDATE user_details SET saved_filters = (SELECT max(saved_filters) FROM user_details)")
    assert "North fails" not in ben.get(IMPORTS).text
    assert send(anna, "/console/filters/remove/", {"name": "North fails"}, at=IMPORTS).status_code == 303
    assert "North fails" not in anna.get(IMPORTS).text


@pytest.mark.promise("saved-filters")
def test_the_filters_of_an_erased_user_are_deleted(ledger: Ledger, database: PostgresUrls, visit: Visit) -> None:
    anna, ben = (new_user(ledger, name=name) for name in ("Anna", "Ben"))
    for user in (anna, ben):
        send(visit(user_id=user), "/console/filters/", {"name": "North fails", "here": NARROWED}, at=IMPORTS)
    before = stored_texts(database)
    operator = new_user(ledger, role="operator")
    assert Tasks(ledger, database).done(operator, "user_erase", user_id=anna).status == "DONE"
    [left] = stored_texts(database)
    assert (len(before), left in before) == (2, True)
    assert read_filters(AUTHORITY, ben, left)[0].name == "North fails"


@pytest.mark.promise("saved-filters")
def test_a_filter_that_cannot_be_saved_is_refused(database: PostgresUrls, support: Browser) -> None:
    for number in range(MAX_FILTERS + 1):
        fields = {"name": f"n{number}", "here": f"{IMPORTS}?run=r{number}"}
        sent = send(support, "/console/filters/", fields, at=IMPORTS)
        assert sent.status_code == (303 if number < MAX_FILTERS else 409), number
    assert "You can save at most 20 filters." in words_of(sent.text)
    for name, here in (("", IMPORTS), ("x" * 61, IMPORTS), ("x", "/console/users/"), ("x", "https://a.example/")):
        assert send(support, "/console/filters/", {"name": name, "here": here}, at=IMPORTS).status_code == 400
    assert len(stored_texts(database)) == 1


NAMES = st.text(string.ascii_letters + "äÜ ß<&\"'", min_size=1, max_size=60)


@given(st.dictionaries(NAMES, NAMES, max_size=MAX_FILTERS))
def test_filters_are_read_as_they_were_saved(saved: dict[str, str]) -> None:
    filters = [SavedFilter(name, f"{IMPORTS}?{urlencode({'run': run})}") for name, run in saved.items()]
    stored = stored_filters(AUTHORITY, "u_1", filters)
    assert sorted(read_filters(AUTHORITY, "u_1", stored), key=str) == sorted(filters, key=str)
    assert read_filters(AUTHORITY, "u_2", stored) == []
    for each in filters:
        assert address_to_save(each.address, [IMPORTS]) == each.address
        assert address_to_save(each.address, ["/console/runs/"]) is None
