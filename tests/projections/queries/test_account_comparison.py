"""Values of an account as it was sent, as the service and the importing party read them independently. Pure."""

import contextlib
import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from importledger_client.account_values import values_of
from projections.queries.account_comparison import shown_text, source_values
from tests.support.make import an_account, encoded, places, value_at

ACCOUNT = an_account("NORDWIND", 1)
PLACES = [place for place in places(ACCOUNT) if place and place != ("unknown_occupier",)]


VALUES: dict[type, st.SearchStrategy[Any]] = {
    str: st.sampled_from(
        [
            "",
            "2023-04-01",
            "2023-04-01T12:00:00",
            "2023-04-01T12:00:00+02:00",
            "0.50",
            "-0",
            "1e3",
            "INF",
            "NaN",
            "1e91",
        ]
    )
    | st.text(max_size=5),
    bool: st.booleans(),
    int: st.integers(-(10**6), 10**6),
    float: st.decimals(-1000, 1000, places=3).map(float),
    list: st.lists(st.text(min_size=1, max_size=3), max_size=2),
    dict: st.dictionaries(st.text(min_size=1, max_size=3), st.integers(0, 9), max_size=2),
}
"""Values of the same JSON type, by the type of the value that they replace."""


@st.composite
def accounts(draw: st.DrawFn) -> dict[str, Any]:
    """The sample account with another value in some places, also in those of fields that no contract has."""
    account: dict[str, Any] = copy.deepcopy(ACCOUNT)
    for place in draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=4)):
        with contextlib.suppress(KeyError, IndexError, TypeError):  # another change has removed the place
            at: Any = value_at(account, place[:-1])
            at[place[-1]] = draw(st.none() | VALUES[type(at[place[-1]])])
    return account | draw(st.dictionaries(st.text(min_size=1, max_size=3), VALUES[dict], max_size=1))


@pytest.mark.promise("sample-side-by-side")
@given(accounts())
def test_service_and_importing_party_read_the_same_values(account: dict[str, Any]) -> None:
    ours, theirs = source_values(encoded(account)), values_of(msgspec.json.decode(encoded(account)))
    assert msgspec.to_builtins(ours) == msgspec.to_builtins(theirs)


@pytest.mark.parametrize("text", ["INF", "-inf", "nan", "sNaN", "1e91", "1e-91", "1e999999999"])
def test_a_number_that_is_not_exact_is_compared_as_it_was_sent(text: str) -> None:
    account = an_account("NORDWIND", 1) | {"transfer_balance": text}
    ours, theirs = source_values(encoded(account)), values_of(account)
    assert [value.text for value in ours["transfer_balance"]] == [f'"{text}"']
    assert msgspec.to_builtins(ours) == msgspec.to_builtins(theirs)


def test_a_value_is_shown_masked_or_in_clear() -> None:
    assert shown_text("customers.family_name", "Mustermann", is_masked=True) == "M•••"
    assert shown_text("customers.family_name", "Mustermann", is_masked=False) == "Mustermann"
    assert shown_text("transfer_balance", "-5.1", is_masked=True) == "-5.1"
    assert shown_text("customers.family_name", None, is_masked=False) == ""
    assert shown_text("notes.created_at", "0", is_masked=False) == "1970-01-01T00:00:00+00:00"
