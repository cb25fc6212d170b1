"""Saved filters: for their user only, on every page, until they are removed or the user is erased."""

import string
from collections.abc import Iterator
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
from tests.support.console import AUTHORITY, COOKIE, App, console_app, new_session, new_user, send, visitor, words_of
from tests.support.owner_tasks import Tasks

IMPORTS = "/console/imports/"
NARROWED = f"{IMPORTS}?supplier=NORD&status=ERRORED&search=gAAAA&after=%5B1%5D"


@pytest.fixture
def app(database: PostgresUrls, ledger: Ledger) -> Iterator[App]:
    with console_app(database) as app:
        yield app


def stored_texts(database: PostgresUrls) -> list[str]:
    with psycopg.connect(database.admin) as admin:
        return [text for (text,) in admin.execute("SELECT saved_filters FROM user_details WHERE saved_filters <> ''")]


@pytest.mark.promise("saved-filters")
def test_a_saved_filter_is_on_every_page_of_its_user_and_in_clear_nowhere(
    app: App, ledger: Ledger, database: PostgresUrls
) -> None:
    anna, ben = (new_user(ledger, name=name) for name in ("Anna", "Ben"))
    with visitor(app, {COOKIE: new_session(ledger, anna)}) as browser:
        assert "Saved filters" in browser.get(IMPORTS).text
        saved = send(browser, "/console/filters/", {"name": " North   fails ", "here": NARROWED}, at=IMPORTS)
        assert (saved.status_code, saved.headers["location"]) == (303, f"{IMPORTS}?supplier=NORD&status=ERRORED")
        assert "The filter was saved." in words_of(browser.get(IMPORTS).text)
    [text] = stored_texts(database)
    assert not any(word in text for word in ("North", "NORD", "imports"))
    with visitor(app, {COOKIE: new_session(ledger, anna)}) as browser:
        for page in (IMPORTS, "/console/errors/", "/console/shortcuts/"):
            shown = browser.get(page).text
            assert f'<a href="{IMPORTS}?supplier=NORD&amp;status=ERRORED">North fails</a>' in shown, page
        send(browser, "/console/filters/", {"name": "North fails", "here": f"{IMPORTS}?run=may"}, at=IMPORTS)
        replaced = browser.get(IMPORTS).text
        assert (f'"{IMPORTS}?run=may">North fails' in replaced, replaced.count("North fails</a>")) == (True, 1)
    with visitor(app, {COOKIE: new_session(ledger, ben)}) as browser:
        assert "North fails" not in browser.get(IMPORTS).text
    with psycopg.connect(database.admin) as admin:  # Anna's text is nothing in another user's row
        admin.execute("UPDATE user_details SET saved_filters = (SELECT max(saved_filters) FROM user_details)")
    with visitor(app, {COOKIE: new_session(ledger, ben)}) as browser:
        assert "North fails" not in browser.get(IMPORTS).text
    with visitor(app, {COOKIE: new_session(ledger, anna)}) as browser:
        assert send(browser, "/console/filters/remove/", {"name": "North fails"}, at=IMPORTS).status_code == 303
        assert "North fails" not in browser.get(IMPORTS).text


@pytest.mark.promise("saved-filters")
def test_the_filters_of_an_erased_user_are_deleted(app: App, ledger: Ledger, database: PostgresUrls) -> None:
    anna, ben = (new_user(ledger, name=name) for name in ("Anna", "Ben"))
    for user in (anna, ben):
        with visitor(app, {COOKIE: new_session(ledger, user)}) as browser:
            send(browser, "/console/filters/", {"name": "North fails", "here": NARROWED}, at=IMPORTS)
    before = stored_texts(database)
    operator = new_user(ledger, role="operator")
    assert Tasks(ledger, database).done(operator, "user_erase", user_id=anna).status == "DONE"
    [left] = stored_texts(database)
    assert (len(before), left in before) == (2, True)
    assert read_filters(AUTHORITY, ben, left)[0].name == "North fails"


@pytest.mark.promise("saved-filters")
def test_a_filter_that_cannot_be_saved_is_refused(app: App, ledger: Ledger, database: PostgresUrls) -> None:
    with visitor(app, {COOKIE: new_session(ledger, new_user(ledger))}) as browser:
        for number in range(MAX_FILTERS + 1):
            fields = {"name": f"n{number}", "here": f"{IMPORTS}?run=r{number}"}
            sent = send(browser, "/console/filters/", fields, at=IMPORTS)
            assert sent.status_code == (303 if number < MAX_FILTERS else 409), number
        assert "You can save at most 20 filters." in words_of(sent.text)
        for name, here in (("", IMPORTS), ("x" * 61, IMPORTS), ("x", "/console/users/"), ("x", "https://a.example/")):
            assert send(browser, "/console/filters/", {"name": name, "here": here}, at=IMPORTS).status_code == 400
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
