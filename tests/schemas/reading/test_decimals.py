"""Decimal texts that are checked together have the same results as each alone, and none is left out."""

import re
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from market.submission_check import Occasion, Terms, check_submission
from schemas.account import Account
from schemas.base import DECIMAL_PATTERN, DecimalText, Wire
from schemas.reading.decimals import are_decimals_valid, with_unchecked_decimals
from schemas.reading.shape import NotJson
from schemas.submission import SENT_ACCOUNT, sent_submission, stored_account, stored_submission
from system.steps import finish_steps
from tests.support.make import NOON, an_account, changed, encoded, places

Path = tuple[str | int, ...]


HERE = ("payment_schedules", 0, "amount")


def with_amount(text: str) -> bytes:
    return encoded(changed(an_account(), "HERE", *HERE)).replace(b'"HERE"', text.encode())


@pytest.mark.parametrize("text", ["1e1000000000000000000", "0e99999999999999999999", "-1E-9999999999999999999"])
@pytest.mark.parametrize("path", [HERE, ("metadata", 0, "value"), ("customers", 0, "title")], ids=str)
def test_a_number_that_cannot_be_held_is_told_and_nothing_else_happens(path: Path, text: str) -> None:
    body = encoded(changed(an_account(), "HERE", *path)).replace(b'"HERE"', text.encode())
    for read in (sent_submission, stored_submission, stored_account):
        with pytest.raises(NotJson):
            read(body)


@pytest.mark.parametrize("text", ["1E1000000", "-1E1000000", "1e-1000000", "1e18", "123456789012345678.12345678901"])
def test_an_amount_of_too_many_digits_breaks_the_rule_that_says_so(text: str) -> None:
    problems = check_submission(sent_submission(with_amount(text)), Terms(), NOON, Occasion.VALIDATE).problems
    assert [(problem.attr, problem.code) for problem in problems] == [("payment_schedules.0.amount", "max_digits")]


@pytest.mark.parametrize("text", ["sNaN", "NaN", "-Infinity", " 5 ", "1_0", "١٢", "5.", "+5", ""])
def test_an_amount_that_is_sent_as_text_has_the_form_of_a_number(text: str) -> None:
    [shape_error] = sent_submission(with_amount(f'"{text}"')).shape_errors
    assert (shape_error.attr, shape_error.code) == ("payment_schedules.0.amount", "invalid")


@pytest.mark.parametrize("text", ["50", ".5", "5.", "+50", " 50 ", "5_0"])
def test_an_amount_that_is_in_the_log_stays_what_it_was(text: str) -> None:
    bare = with_amount(f'"{text}"')
    for body in (bare, b'{"payload":' + bare + b"}"):
        for account in (stored_submission(body).account, stored_account(body)):
            assert account.payment_schedules[0].amount == Decimal(text)


@pytest.mark.parametrize("text", ["50", "50.00", "5e1", "-0.10"])
def test_an_amount_may_be_sent_as_text(text: str) -> None:
    sent = sent_submission(with_amount(f'"{text}"'))
    assert not sent.shape_errors
    assert sent.account.payment_schedules[0].amount == Decimal(text)


FORMS = ("1", "-0.5", "1" * 18, "", "1\n2", "1\n", "\n", "1.", ".5", "1e5", "+1", " 1", "1,5", "٣", "1" * 19, "NaN")
TEXTS = st.one_of(
    st.sampled_from(FORMS),
    st.from_regex(DECIMAL_PATTERN, fullmatch=False).filter(lambda text: re.search(DECIMAL_PATTERN, text)),
    st.text("0123456789.-\n", min_size=1, max_size=24),
)


class Priced(Wire, frozen=True):
    price: DecimalText
    others: tuple[DecimalText, ...] = ()
    rebate: DecimalText | None = None


class Priceless(Wire, frozen=True):
    first: Priced
    many: tuple[Priced, ...] = ()
    last: Priced | None = None


def are_valid(first: str, second: str, rebate: str, fourth: str, last: str) -> bool:
    return are_decimals_valid(
        Priceless(
            first=Priced(price=first, others=("2", second), rebate=rebate),
            many=(Priced(price="2"), Priced(price=fourth)),
            last=Priced(price=last),
        ),
        Priceless,
    )


def test_a_decimal_of_an_inner_shape_is_checked_later() -> None:
    unchecked = with_unchecked_decimals(Priceless)
    assert msgspec.json.decode(b'{"first":{"price":"x"}}', type=unchecked).first.price == "x"


def has_form(text: str) -> bool:
    return text == "" or re.search(DECIMAL_PATTERN, text) is not None  # what is empty is absent


@given(st.lists(TEXTS, min_size=5, max_size=5))
def test_all_decimals_are_checked_together_as_each_one_alone(texts: list[str]) -> None:
    assert are_valid(*texts) == all(map(has_form, texts))


@pytest.mark.parametrize("text", FORMS)
@pytest.mark.parametrize("place", range(5))
def test_texts_hold_where_each_has_the_form(place: int, text: str) -> None:
    assert are_valid(*("1" if at != place else text for at in range(5))) == has_form(text)


def decimal_places() -> list[Path]:
    """Every place of an account whose text the shape asks to be a decimal."""

    def is_decimal(path: Path) -> bool:
        try:
            msgspec.json.decode(encoded(changed(an_account(), "1,5", *path)), type=Account)
        except msgspec.ValidationError as error:
            return repr(DECIMAL_PATTERN) in str(error)
        return False

    return [path for path in places(an_account())[1:] if is_decimal(path)]


@pytest.mark.parametrize("path", decimal_places(), ids=str)
def test_no_place_is_forgotten(path: Path) -> None:
    """Other spellings of a number are read the exact way, which makes it what is kept."""
    for text in ("1,5", "1\n2"):
        body = encoded(changed(an_account(), text, *path))
        [shape_error] = sent_submission(body).shape_errors
        assert shape_error.attr == ".".join(map(str, path))
    body = encoded(changed(an_account(), "1e5", *path))
    assert finish_steps(SENT_ACCOUNT.decode_in_steps(body, with_digest=False)) is None
    assert stored_account(body) == stored_submission(body).account


def test_there_are_such_places() -> None:
    assert len(decimal_places()) > 30
