"""No address and no form ends in a 5xx, and no answer of the console is cached."""

import ast
import json
import re
from pathlib import Path
from urllib.parse import quote_from_bytes

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.access.visit import ROOT, Screen
from console.presentation.listing import NAMES, SEARCH
from console.screens import SCREENS
from eventstore.log.ledger import Ledger
from tests.support.console import Browser, Visit, create_supplier, csrf_in, new_user, stage_account
from tests.support.sources import nodes

PAGES = [screen.path for screen in SCREENS if screen.method == "GET" and screen.roles is not None]
ODD = ("\0", "x" * 3_000, "9" * 40, "'\"[{%s}../<\ud7ff\U0001f480\u202e; DROP TABLE events; --")


def place_of(path: str, user: str) -> str:
    """The address of a page or form about an existing import."""
    names = {"supplier": "NW", "external": "A%2F1", "code": "blank", "name": "throughput", "user_id": user}
    names |= {"key_id": "nothing1"}
    return ROOT + re.sub(r"\{(\w+)\}", lambda match: names.get(match[1], "nothing"), path)


def addresses(user: str) -> list[str]:
    return [place_of(path, user) for path in PAGES]


@pytest.mark.asvs("V3.2.1", "V3.4.3", "V3.4.4", "V3.4.5", "V3.4.6", "V14.2.2", "V14.3.1", "V14.3.2")
def test_no_answer_of_the_console_is_kept_in_a_cache_or_shown_in_a_frame(
    ledger: Ledger, visit: Visit, stranger: Browser
) -> None:
    user = new_user(ledger, role="operator")
    create_supplier(ledger, "NW")
    stage_account(ledger, "NW", "A/1")
    browser = visit(user_id=user)
    for path in [*addresses(user), f"{ROOT}/nothing/", f"{ROOT}/errors/?after=x"]:
        for answer in (browser.get(path), stranger.get(path)):
            headers = answer.headers
            assert headers["cache-control"] == "no-store", path
            assert "frame-ancestors 'none'" in headers["content-security-policy"], path
            assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "same-origin")


CONSOLE = Path(__file__).parent.parent.parent / "console"
IN_PATHS = ("supplier", "external", "code", "name", "user_id", "key_id", "run")
READERS = {"query", "key_in", "page_of", "text", "all", "secret"}
"""Functions of the console that read a parameter or a field."""


def names_read() -> set[str]:
    """Names of parameters and fields that the sources of the console read."""
    calls = [node for file in CONSOLE.rglob("*.py") for node in nodes(file) if isinstance(node, ast.Call)]
    read = [call for call in calls if getattr(call.func, "attr", getattr(call.func, "id", "")) in READERS]
    texts = [text.value for call in read for text in call.args if isinstance(text, ast.Constant)]
    return {*NAMES, SEARCH, *(text for text in texts if isinstance(text, str) and text)}


EDGES = ("0001-01-01", "9999-12-31", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-02-30", "-1-1-1")
NUMBERS = st.integers(-(10**30), 10**30) | st.sampled_from((0, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 10**18 - 1))
PLACES = st.lists(NUMBERS | st.text(max_size=5) | st.sampled_from(EDGES) | st.none(), max_size=5)
VALUES = st.one_of(
    st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.binary(max_size=20),
    st.sampled_from((*EDGES, *ODD)).map(lambda text: text.encode("utf-8", "surrogatepass")),
    PLACES.map(lambda place: json.dumps(place).encode()),
    PLACES.map(lambda place: json.dumps(["reading", place]).encode()),
    NUMBERS.map(lambda number: b"%d" % number),
    st.sampled_from(("٣", "１２", "１", "café", "O’Brien", "ﬀ", "e\u0301", "=1+1")).map(str.encode),
)


def encoded_fields(fields: dict[str, bytes]) -> str:
    """Encode fields with any bytes for an address or a form."""
    return "&".join(f"{name}={quote_from_bytes(value, safe='')}" for name, value in fields.items())


@pytest.mark.promise("value-parameter-field-form")
@pytest.mark.asvs("V1.2.4")
@pytest.mark.slow
def test_no_value_of_an_address_or_a_form_ends_in_a_5xx(ledger: Ledger, operator: Browser) -> None:
    create_supplier(ledger, "NW")
    stage_account(ledger, "NW", "A/1")
    other, names = new_user(ledger), sorted(names_read())
    assert {"day", "csrf", "payload", "rows-after", "suppliers"} <= set(names)
    pages = [place_of(screen.path, other) for screen in SCREENS if screen.method == "GET"]
    ending = ("/sign-out/", "/openid/")  # of the session, and to somewhere else
    forms = [
        place_of(screen.path, other)
        for screen in SCREENS
        if screen.method == "POST" and not screen.path.endswith(ending)
    ]
    request = operator.request
    csrf = csrf_in(request("GET", f"{ROOT}/imports/").text).encode()

    @settings(deadline=None)
    @given(st.sampled_from(pages), st.dictionaries(st.sampled_from(names), VALUES, min_size=1, max_size=6))
    def pages_answer(path: str, fields: dict[str, bytes]) -> None:
        assert request("GET", f"{path}?{encoded_fields(fields)}").status_code < 500

    @settings(deadline=None)
    @given(st.sampled_from(SCREENS), st.dictionaries(st.sampled_from(IN_PATHS), VALUES))
    def places_answer(screen: Screen, values: dict[str, bytes]) -> None:
        named = {name: quote_from_bytes(value or b".", safe="") for name, value in values.items()}
        path = re.sub(r"\{(\w+)\}", lambda match: named.get(match[1], "NW"), screen.path)
        fields = encoded_fields({"csrf": csrf, "reason": b"x"}) if not screen.path.endswith(ending) else ""
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        assert request(screen.method, ROOT + path, content=fields, headers=kind).status_code < 500

    @settings(deadline=None)
    @given(st.sampled_from(forms), st.dictionaries(st.sampled_from(names), VALUES, max_size=6), st.booleans())
    def forms_answer(path: str, fields: dict[str, bytes], is_whole: bool) -> None:
        body = encoded_fields(fields | ({"csrf": csrf} if is_whole else {}))
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        assert request("POST", path, content=body, headers=kind).status_code < 500

    for path in pages:
        for odd in (*EDGES, *ODD):
            fields = dict.fromkeys(names, odd.encode("utf-8", "surrogatepass")[:300])
            assert request("GET", f"{path}?{encoded_fields(fields)}").status_code < 500
    pages_answer()
    places_answer()
    forms_answer()
    assert request("GET", f"{ROOT}/imports/").status_code == 200, "the session has lasted"
