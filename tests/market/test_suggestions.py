"""Suggestions: each removes its problem and makes no other, and values that may be right get none."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from market.submission_check import Occasion, Terms, check_submission
from market.suggestions import MOST_BYTES, applied, with_suggestions
from schemas.base import Problem, SuggestedProblem
from schemas.submission import sent_submission
from tests.support.make import an_account, changed, encoded

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
CUSTOMER, POINT = ("customers", 0), ("supply_addresses", 0, "supply_points", 0)
MALO, MELO = "51238696781", "DE0001234567890000000000000012345"
PLACES: dict[str, tuple[Any, ...]] = {
    "mobile": (*CUSTOMER, "mobile"),
    "landline": (*CUSTOMER, "landline"),
    "date_of_birth": (*CUSTOMER, "date_of_birth"),
    "email": (*CUSTOMER, "email"),
    "family_name": (*CUSTOMER, "family_name"),
    "billing_postcode": ("billing_postcode",),
    "supply_postcode": ("supply_addresses", 0, "supply_postcode"),
    "supply_type": (*POINT, "supply_type"),
    "melo_number": (*POINT, "melos", 0, "melo_number"),
    "external_account_number": ("external_account_number",),
}


def problems_of(body: bytes) -> list[Problem]:
    check = check_submission(sent_submission(body), Terms(), NOW, Occasion.VALIDATE)
    return [*check.problems, *check.warnings]


def suggested(body: bytes) -> list[SuggestedProblem]:
    found = with_suggestions(body, problems_of(body), Terms(), NOW, Occasion.VALIDATE)
    return [problem for problem in found if isinstance(problem, SuggestedProblem)]


def suggestion_for(value: Any, field: str) -> str | None:
    body = encoded(changed(an_account(), value, *PLACES[field]))
    return next((found.suggestion.value for found in suggested(body) if found.attr.endswith(field)), None)


@pytest.mark.promise("safe-suggestions")
@pytest.mark.parametrize(
    ("field", "wrong", "right"),
    [
        ("mobile", "0151-23456789, abends", "+4915123456789"),
        ("mobile", "0151 23456789 (privat)", "+4915123456789"),
        ("landline", "+490049 30 901820", None),
        ("mobile", "0151 23456789 / 0152 34567890", None),
        ("date_of_birth", "31.12.1979", "1979-12-31"),
        ("date_of_birth", "1979-31-12", "1979-12-31"),
        ("date_of_birth", "12/31/1979", "1979-12-31"),
        ("date_of_birth", "03/04/1979", None),
        ("date_of_birth", "31.02.1979", None),
        ("billing_postcode", "4109", "04109"),
        ("supply_postcode", "D-04109 ", "04109"),
        ("billing_postcode", "410", None),
        ("billing_postcode", "123456", None),
        ("supply_type", " Electricity", "ELECTRICITY"),
        ("melo_number", MELO.lower(), MELO),
        ("external_account_number", "K-1 ", "K-1"),
        ("email", "nobody", None),
        ("family_name", " ", None),
    ],
)
def test_a_wrong_value_gets_the_certain_correction_or_none(field: str, wrong: str, right: str | None) -> None:
    assert suggestion_for(wrong, field) == right


@pytest.mark.promise("safe-suggestions")
def test_swapped_location_ids_are_swapped_back() -> None:
    account = changed(an_account(), "", "ledgers", 0, "identifiers")
    right = account["supply_addresses"][0]["supply_points"][0]["identifier"]
    account = changed(changed(account, MELO, *POINT, "identifier"), right, *PLACES["melo_number"])
    account = changed(account, [], "ledgers", 0, "identifiers")
    found = {problem.code: problem.suggestion.value for problem in suggested(encoded(account))}
    assert found == {"invalid_supply_point_identifier": right, "invalid_metering_location_id": MELO}


@pytest.mark.promise("safe-suggestions")
def test_an_iban_with_other_signs_is_corrected_unless_its_check_digits_are_wrong() -> None:
    place = ("payment_instructions", 0, "bank_account", "iban")
    [problem] = suggested(encoded(changed(an_account(), "iban de89/3704/0044/0532/0130/00", *place)))
    assert (problem.suggestion.name, problem.suggestion.value) == ("iban", "DE89370400440532013000")
    assert not suggested(encoded(changed(an_account(), "DE88/3704/0044/0532/0130/00", *place)))


wrong_texts = st.one_of(
    st.text(max_size=20),
    st.from_regex(r"[ +]?(0|49|\+49)?[ 0-9/()\-]{3,14}[a-z ]{0,5}", fullmatch=True),
    st.from_regex(r"[0-9]{1,4}[./-][0-9]{1,2}[./-][0-9]{1,4}", fullmatch=True),
    st.from_regex(r"[ DE-]{0,3}[0-9]{3,6} ?", fullmatch=True),
    st.sampled_from([MALO, MELO, MELO.lower(), f" {MALO}", "gas ", "0049 30 901820"]),
)


@pytest.mark.promise("safe-suggestions")
@given(st.dictionaries(st.sampled_from(sorted(PLACES)), wrong_texts, min_size=1))
def test_each_suggestion_removes_its_problem_and_adds_none(wrong: dict[str, str]) -> None:
    account = an_account()
    for field, value in wrong.items():
        account = changed(account, value, *PLACES[field])
    body = together = encoded(account)
    before = {(p.attr, p.code) for p in problems_of(body)}
    removed = set()
    for problem in suggested(body):
        name = problem.attr, problem.code
        value = problem.suggestion.value
        assert {(p.attr, p.code) for p in problems_of(applied(body, problem.attr, value))} <= before - {name}
        together = applied(together, problem.attr, value)
        removed.add(name)
    assert {(p.attr, p.code) for p in problems_of(together)} <= before - removed


def test_problems_without_a_value_and_large_accounts_get_no_suggestion() -> None:
    body = encoded(changed(an_account(), "4109", "billing_postcode"))
    assert suggested(body)
    assert not suggested(body[:-1] + b" " * MOST_BYTES + b"}")
    whole = [Problem("non_field_errors", "error", "x"), Problem("customers.9.mobile", "invalid_phone_number", "x")]
    assert with_suggestions(body, whole, Terms(), NOW, Occasion.VALIDATE) == whole


def test_a_wrapped_account_gets_the_same_suggestions() -> None:
    account = changed(an_account(), "4109", "billing_postcode")
    bare, wrapped = encoded(account), msgspec.json.encode({"payload": account, "task_params": {}})
    assert suggested(bare) == suggested(wrapped)
    assert b'"04109"' in applied(wrapped, "billing_postcode", "04109")
