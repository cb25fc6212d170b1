"""Every shape error of a body is found, with its path and code; both readers read a valid body alike."""

import string
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import inspect

import market
from importledger_client.book import ERRORS, book
from schemas.account import Account
from schemas.base import MARKET_TIME
from schemas.reading import shape_errors
from schemas.reading.field_names import named
from schemas.reading.shape import NotJson, is_real_moment
from schemas.sentence import Sentence, german_of
from schemas.submission import ACCOUNT, read_submission
from tests.support.german import is_german
from tests.support.make import an_account, changed, changed_where_there, encoded, places

POINT = ("supply_addresses", 0, "supply_points", 0)
READING = (*POINT, "melos", 0, "meters", 0, "registers", 0, "readings", 0)


def problems(account: Any) -> list[tuple[str, str]]:
    return [(problem.attr, problem.code) for problem in read_submission(encoded(account)).shape_errors]


@pytest.mark.parametrize(("number", "detail"), [("..", shape_errors.DOT_SEGMENT), (" X", shape_errors.OUTER_BLANKS)])
def test_a_number_that_no_address_can_name_has_its_reason(number: str, detail: Sentence) -> None:
    (problem,) = read_submission(encoded(an_account() | {"external_account_number": number})).shape_errors
    assert problem.detail == named(detail, Account, ["external_account_number"])


@pytest.mark.promise("if-optional-object-array")
@pytest.mark.parametrize(
    ("value", "path", "code"),
    [
        (..., ("external_account_number",), "required"),
        (..., (*READING, "read_at"), "required"),
        (None, ("billing_address1",), "null"),
        ("", ("external_account_number",), "blank"),
        ("", ("import_supplier",), "blank"),
        (" X", ("external_account_number",), "invalid"),
        (".", ("external_account_number",), "invalid"),
        ("..", ("external_account_number",), "invalid"),
        ("x" * 129, ("external_account_number",), "max_length"),
        ("x" * 513, ("customers", 0, "family_name"), "max_length"),
        ([{"slug": "x"}] * 10_001, ("account_campaigns",), "max_length"),
        ("NaN", ("transfer_balance",), "invalid"),
        ("1_000", ("transfer_balance",), "invalid"),
        ("Infinity", ("transfer_balance",), "invalid"),
        ("1e400", ("transfer_balance",), "max_digits"),
        (0, ("unknown_occupier",), "invalid"),
        ("WATER", (*POINT, "supply_type"), "invalid_choice"),
        (0, (*POINT, "melos", 0, "meters", 0, "registers", 0, "digits"), "min_value"),
        (32, ("payment_schedules", 0, "day_of_month"), "max_value"),
        ("2023-01-01T00:00:00Z", ("statements", 0, "bill_period_to_date"), "invalid"),
        (20230101, ("statements", 0, "bill_period_to_date"), "invalid"),
        ("2026-03-29T02:30:00", (*READING, "read_at"), "invalid"),
        ({}, ("customers",), "not_a_list"),
        ([], ("customers", 0), "invalid"),
        ({"deep": ["a\0b"]}, ("metadata", 0, "value"), "null_characters_not_allowed"),
    ],
)
def test_a_shape_error_is_named_with_its_path(value: Any, path: tuple[str | int, ...], code: str) -> None:
    attr = ".".join(map(str, path))
    found = problems(changed(an_account(), value, *path))
    assert (attr, code) in [(where[: len(attr)], what) for where, what in found]
    assert len(found) == 1
    [problem] = read_submission(encoded(changed(an_account(), value, *path))).shape_errors
    assert problem.detail != german_of(problem.detail)
    assert is_german(german_of(problem.detail))


@given(st.text(max_size=4) | st.sampled_from([".", "..", "...", ".a", "a/..", "%2E"]))
@example("..")
def test_each_external_number_that_fits_is_named_by_an_address(number: str) -> None:
    """A client joins the address as RFC 3986 says, which removes dot segments."""
    if problems(changed(an_account(), number, "external_account_number")):
        return
    address = urljoin("http://ledger/accounts/", f"/accounts/{quote(number, safe='')}/")
    assert unquote(urlsplit(address).path.removeprefix("/accounts/").removesuffix("/")) == number


def test_all_shape_errors_are_found_at_once() -> None:
    account = changed(an_account(), 5, "customers", 0, "landline")
    account = changed(account, ..., "import_supplier")
    account = changed(account, "x", *READING, "value")
    account = changed(account, 1, "billing_adress1")
    assert sorted(problems(account)) == [
        ("billing_adress1", "unknown_field"),
        ("customers.0.landline", "invalid"),
        ("import_supplier", "required"),
        (".".join(map(str, (*READING, "value"))), "invalid"),
    ]


@pytest.mark.promise("only-documented-fields-may")
def test_an_unknown_field_is_answered_with_the_nearest_name() -> None:
    [problem] = read_submission(encoded(changed(an_account(), "x", "billing_adress1"))).shape_errors
    assert "billing_address1" in problem.detail


@pytest.mark.promise("optional-field-wanted-omitted")
@pytest.mark.parametrize(
    "path",
    [
        ("customers", 0, "email"),
        ("customers", 0, "mobile"),
        (*POINT, "supply_end_date"),
        (*POINT, "melos", 0, "meters", 0, "active_to"),
        (*POINT, "balancing_periods", 0, "balancing_period_time_slices", 0, "valid_to"),
    ],
)
def test_null_is_allowed_on_contacts_and_ends(path: tuple[str | int, ...]) -> None:
    assert problems(changed(an_account(), None, *path)) == []


@pytest.mark.promise("decimals-strings-holding-decimal")
@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("46.350", "46.350"),
        (46.35, "46.35"),
        (46, "46"),
        ("-0.5", "-0.5"),
        ("1e2", "100"),
        ("123.456789000", "123.456789000"),
    ],
)
def test_decimals_keep_their_scale_and_are_taken_as_text_or_number(sent: Any, kept: str) -> None:
    account = changed(an_account(), sent, "transfer_balance")
    assert read_submission(encoded(account)).account.transfer_balance == kept


def test_numbers_of_any_json_keep_their_digits() -> None:
    body = encoded(an_account()).replace(b'"score":', b'"exact":0.1000000000000000055511151231257827,"score":')
    [item] = read_submission(body).account.metadata
    assert str(item.value["exact"]) == "0.1000000000000000055511151231257827"


@pytest.mark.parametrize(
    ("short", "whole"),
    [
        ("2026-07-01T12:00", "2026-07-01T12:00:00+02:00"),
        ("2026-07-01T12:00Z", "2026-07-01T12:00:00+00:00"),
        ("2026-07-01T12:00:30-03", "2026-07-01T12:00:30-03:00"),
    ],
)
def test_a_moment_may_leave_out_seconds_and_the_minutes_of_its_offset(short: str, whole: str) -> None:
    submission = read_submission(encoded(changed(an_account(), short, *READING, "read_at")))
    assert submission.shape_errors == ()
    point = submission.account.supply_addresses[0].supply_points[0]
    assert point.melos[0].meters[0].registers[0].readings[0].read_at.isoformat() == whole


@pytest.mark.parametrize("wrong", ["2026-07-01T12", "2026-07-01T12:00+1", "2026-07-01T12:00:00:00", "2026-07-01T12:60"])
def test_what_is_no_moment_is_refused(wrong: str) -> None:
    [shape_error] = read_submission(encoded(changed(an_account(), wrong, *READING, "read_at"))).shape_errors
    assert shape_error.code == "invalid"


@pytest.mark.promise("dates-datetimes-iso-8601")
def test_a_moment_without_zone_is_german_market_time() -> None:
    account = changed(an_account(), "2026-07-01T12:00:00", *READING, "read_at")
    read = read_submission(encoded(account)).account
    moment = read.supply_addresses[0].supply_points[0].melos[0].meters[0].registers[0].readings[0].read_at
    assert moment.isoformat() == "2026-07-01T12:00:00+02:00"


@pytest.mark.promise("dates-datetimes-iso-8601")
def test_the_doubled_hour_is_the_first() -> None:
    moment = datetime(2026, 10, 25, 2, 30)  # noqa: DTZ001 - without zone is the point
    assert is_real_moment(moment)
    assert moment.replace(tzinfo=MARKET_TIME).isoformat() == "2026-10-25T02:30:00+02:00"


@pytest.mark.parametrize("body", [b"{]", b'{"a": NaN}', b"{} {}"])
def test_the_byte_that_is_no_json_is_named(body: bytes) -> None:
    with pytest.raises(NotJson, match="byte"):
        read_submission(body)


@pytest.mark.parametrize("body", [b"[]", b"1", b'"x"', b"null", b"true"])
def test_a_body_that_is_no_object_is_a_shape_error(body: bytes) -> None:
    [problem] = read_submission(body).shape_errors
    assert problem.attr == "non_field_errors"


def test_the_wrapped_form_is_read_and_its_paths_are_those_of_the_account() -> None:
    wrapped = {"payload": an_account(), "task_params": {"is_dry_run": True}}
    assert read_submission(encoded(wrapped)).task.is_dry_run
    wrapped["payload"] = changed(an_account(), 5, "customers", 0, "landline")
    wrapped["task_params"] = {"is_dry_run": "yes", "when": 1}
    assert problems(wrapped) == [
        ("customers.0.landline", "invalid"),
        ("task_params.is_dry_run", "invalid"),
        ("task_params.when", "unknown_field"),
    ]


def fields_used(value: Any, node: inspect.Type) -> set[tuple[str, str]]:
    """(struct, field) of all that the value fills; None as value: of all that the shape has."""
    match node:
        case inspect.UnionType(types=types):
            return set().union(*(fields_used(value, member) for member in types))
        case inspect.VarTupleType(item_type=item):
            return set().union(*(fields_used(one, item) for one in ([None] if value is None else value)))
        case inspect.StructType(cls=cls, fields=fields):
            there = [field for field in fields if value is None or field.name in value]
            below = (fields_used(None if value is None else value[field.name], field.type) for field in there)
            return {(cls.__name__, field.name) for field in there}.union(*below)
        case _:
            return set()


def test_the_book_uses_every_field_of_the_specification() -> None:
    shape = inspect.type_info(Account)
    books = [msgspec.json.decode(entry.body) for entry in book("NORDWIND", 3)]
    assert fields_used(None, shape) - set().union(*(fields_used(account, shape) for account in books)) == set()


def test_the_book_holds_deliberate_errors_of_every_kind() -> None:
    codes = [
        entry.expected_code
        for entry in book("NORDWIND", 50 * len(ERRORS), errors=Fraction(2, 100))
        if entry.expected_code
    ]
    assert sorted(codes) == sorted(code for code, _ in ERRORS)


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(string.printable, max_size=20),
    st.sampled_from(["GAS", "2024-02-29", "2024-01-01T00:00:00Z", "1.50", "", "DD"]),
)
JUNK = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner))


@example([(("supply_addresses", 0, "supply_points", 0, "agreements", 0, "params", "network_charges"), {"\0": None})])
@given(st.lists(st.tuples(st.sampled_from(places(an_account())[1:]), JUNK), min_size=1, max_size=4))
def test_the_walk_and_the_decoder_agree_on_what_fits(changes: list[tuple[tuple[str | int, ...], Any]]) -> None:
    body = encoded(changed_where_there(an_account(), changes))
    try:
        strict = msgspec.json.Decoder(Account).decode(body)
    except msgspec.ValidationError:
        strict = None
    fitted, found = ACCOUNT.fit(msgspec.json.decode(body))
    if strict is not None:
        beyond_types = ("blank", "max_digits", "invalid", "null_characters_not_allowed")
        assert all(problem.code in beyond_types for problem in found)
    assert isinstance(fitted, Account)
    market.check(fitted, datetime.now(UTC), found)
    for problem in found:
        assert problem.detail
        assert problem.attr
