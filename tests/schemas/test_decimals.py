"""Decimal texts that are looked at together are judged as each by itself, and no place is forgotten."""

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from schemas.account import Account
from schemas.base import DECIMAL_PATTERN, DecimalText, Wire
from schemas.decimals import decimals_hold, without_form
from schemas.submission import SENT_ACCOUNT, imported_account, sent_submission, stored_submission
from tests.support.make import an_account, changed, encoded, places

Path = tuple[str | int, ...]
TEXTS = ("1", "-0.5", "1" * 18, "", "1\n2", "1\n", "\n", "1.", ".5", "1e5", "+1", " 1", "1,5", "٣", "1" * 19, "NaN")


class Priced(Wire, frozen=True):
    price: DecimalText
    others: tuple[DecimalText, ...] = ()
    rebate: DecimalText | None = None


class Priceless(Wire, frozen=True):
    first: Priced
    many: tuple[Priced, ...] = ()
    last: Priced | None = None


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    "value_with",
    [
        lambda text: Priceless(first=Priced(price=text)),
        lambda text: Priceless(first=Priced(price="1", others=("2", text))),
        lambda text: Priceless(first=Priced(price="1", rebate=text)),
        lambda text: Priceless(first=Priced(price="1"), many=(Priced(price="2"), Priced(price=text))),
        lambda text: Priceless(first=Priced(price="1"), last=Priced(price=text)),
    ],
)
def test_texts_hold_where_each_has_the_form(value_with: Callable[[str], Priceless], text: str) -> None:
    assert decimals_hold(value_with(text), Priceless) == bool(re.search(DECIMAL_PATTERN, text))


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
        [misfit] = sent_submission(body).misfits
        assert misfit.attr == ".".join(map(str, path))
    body = encoded(changed(an_account(), "1e5", *path))
    assert SENT_ACCOUNT.at_once(body) is None
    assert imported_account(body) == stored_submission(body).account


def test_there_are_such_places() -> None:
    assert len(decimal_places()) > 30


def test_a_shape_without_the_form_takes_any_text_wherever_it_is() -> None:
    taken = msgspec.json.decode(
        b'{"first":{"price":"x"},"many":[{"price":"","others":["y"]}]}', type=without_form(Priceless)
    )
    assert taken.many[0].others == ("y",)


def test_absent_decimals_hold_and_empty_ones_that_are_told_apart_do_not() -> None:
    bare = encoded({"external_account_number": "1", "import_supplier": "S"})
    assert decimals_hold(msgspec.json.decode(bare, type=without_form(Account)), Account)
    assert SENT_ACCOUNT.at_once(encoded(changed(an_account(), "", "transfer_balance"))) is None
    assert SENT_ACCOUNT.at_once(encoded(changed(an_account(), ..., "transfer_balance"))) is not None


def test_a_shape_without_the_form_reads_the_same() -> None:
    body = encoded(an_account())
    read: Any = msgspec.json.decode(body, type=without_form(Account))
    assert isinstance(read, Account)
    assert msgspec.to_builtins(read) == msgspec.to_builtins(stored_submission(body).account)
    assert msgspec.json.encode(imported_account(body)) == msgspec.json.encode(stored_submission(body).account)
