"""Suggestions: each removes its problem and makes no other, and values that may be right get none."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from importledger_client.commands.fix import NAMES
from market.submission_check import Occasion, Terms, check_submission
from market.suggestions import applied, with_suggestions
from schemas.base import Problem, SuggestedProblem
from schemas.reading.problems import MAX_PROBLEMS
from schemas.sentence import Sentence
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
    "identifier": (*POINT, "identifier"),
    "melo_number": (*POINT, "melos", 0, "melo_number"),
    "external_account_number": ("external_account_number",),
}


def problems_of(body: bytes) -> list[Problem]:
    check = check_submission(sent_submission(body), Terms(), NOW, Occasion.VALIDATE)
    return [*check.problems, *check.warnings]


def suggested(body: bytes) -> list[SuggestedProblem]:
    problems = problems_of(body)
    found = with_suggestions(body, problems, Terms(), NOW, Occasion.VALIDATE)
    assert [(p.attr, p.code, p.detail) for p in found] == [(p.attr, p.code, p.detail) for p in problems]
    result = [problem for problem in found if isinstance(problem, SuggestedProblem)]
    for problem in result:
        assert problem.suggestion.name in NAMES
        assert isinstance(problem.suggestion.sentence, Sentence)
    return result


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
        ("landline", "030 901820, abends", "+4930901820"),
        ("landline", "49 0 30 901820, abends", None),
        ("mobile", "0151 23456789 / 0152 34567890", None),
        ("date_of_birth", "31.12.1979", "1979-12-31"),
        ("date_of_birth", "\u200b1979-31-12", "1979-12-31"),
        ("date_of_birth", "12/31/1979", "1979-12-31"),
        ("date_of_birth", "19791231", "1979-12-31"),
        ("date_of_birth", "03/04/1979", None),
        ("date_of_birth", "31.02.1979", None),
        ("billing_postcode", "4109", "04109"),
        ("billing_postcode", 4109, "04109"),
        ("supply_postcode", "D-04109 ", "04109"),
        ("billing_postcode", "410", None),
        ("billing_postcode", "123456", None),
        ("supply_type", " Electricity", "ELECTRICITY"),
        ("identifier", "512 386-96781", MALO),
        ("melo_number", f"de {MELO[2:]}", MELO),
        ("external_account_number", f"{'X 0151 23456789':512}", "X 0151 23456789"),
        ("external_account_number", f"{'X 0151 23456789':513}", None),
        ("external_account_number", "4109 ", "4109"),
        ("email", "nobody", None),
        ("email", " ", None),
        ("family_name", " ", None),
        ("family_name", True, None),
    ],
)
def test_a_wrong_value_gets_the_certain_correction_or_none(field: str, wrong: Any, right: str | None) -> None:
    assert suggestion_for(wrong, field) == right


@pytest.mark.promise("safe-suggestions")
def test_swapped_location_ids_are_swapped_back() -> None:
    account = changed(an_account(), "", "ledgers", 0, "identifiers")
    right = account["supply_addresses"][0]["supply_points"][0]["identifier"]
    account = changed(changed(account, MELO, *POINT, "identifier"), right, *PLACES["melo_number"])
    account = changed(account, [], "ledgers", 0, "identifiers")
    found = {problem.code: problem.suggestion.value for problem in suggested(encoded(account))}
    assert found == {"invalid_supply_point_identifier": right, "invalid_metering_location_id": MELO}


@pytest.mark.parametrize(("identifier", "melo_number"), [("x", MALO), (MELO, "x")])
def test_location_ids_are_not_swapped_if_one_is_wrong(identifier: str, melo_number: str) -> None:
    account = changed(an_account(), identifier, *PLACES["identifier"])
    assert not suggested(encoded(changed(account, melo_number, *PLACES["melo_number"])))


def test_a_correction_that_contradicts_another_is_not_suggested() -> None:
    account = changed(an_account(), f"{MALO} .", *PLACES["identifier"])
    account = changed(account, f"{MALO} -", "supply_addresses", 0, "supply_points", 1, "identifier")
    [problem] = suggested(encoded(account))
    assert problem.suggestion.value == MALO


def test_ten_values_of_an_account_are_tried() -> None:
    account = an_account()
    schedules = [account["payment_schedules"][0] | {"means": "dd"}] * 11
    assert len(suggested(encoded(changed(account, schedules, "payment_schedules")))) == 10


@pytest.mark.promise("safe-suggestions")
def test_an_iban_with_other_signs_is_corrected_unless_its_check_digits_are_wrong() -> None:
    place = ("payment_instructions", 0, "bank_account", "iban")
    for other in ("iban de89/3704/0044/0532/0130/00", "DE89–3704-0044.0532-0130.00"):
        [problem] = suggested(encoded(changed(an_account(), other, *place)))
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
    account = changed(an_account(), 4109, "billing_postcode")
    body = encoded(account)
    assert suggested(body)
    assert suggested(body.ljust(2**18))
    assert not suggested(body.ljust(2**18 + 1))
    assert not suggested(encoded(account | dict.fromkeys(map(str, range(2 * MAX_PROBLEMS))))), "problems are left out"
    places = ("non_field_errors", "customers.9.mobile", "billing_postcode")
    whole = [Problem(place, "invalid_phone_number", "x") for place in places]
    assert with_suggestions(body, whole, Terms(), NOW, Occasion.VALIDATE) == whole


def test_a_wrapped_account_gets_the_same_suggestions() -> None:
    account = changed(an_account(), "4109", "billing_postcode")
    bare, wrapped = encoded(account), msgspec.json.encode({"payload": account, "task_params": {}})
    assert suggested(bare) == suggested(wrapped)
    assert msgspec.json.decode(applied(wrapped, "billing_postcode", "04109")) == {
        "payload": changed(account, "04109", "billing_postcode"),
        "task_params": {},
    }
    assert applied(b'{"a":"x","b":1.50}', "a", "y") == b'{"a":"y","b":1.50}'
