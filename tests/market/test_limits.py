"""Where a rule draws a line, one account lies just inside and another just outside."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

import market
from market.identifiers import (
    is_iban,
    is_market_location_id,
    is_market_partner_code,
    is_metering_location_id,
    is_obis_code,
    is_postcode,
)
from market.plausibility import PLAUSIBILITY
from schemas.account import Account
from schemas.submission import read_submission
from tests.support.make import an_account, changed, encoded

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
AHEAD = date(2026, 11, 21) + timedelta(days=2 * 366)
BEYOND = AHEAD + timedelta(days=1)
ADDRESS = ("supply_addresses", 0)
POINT = (*ADDRESS, "supply_points", 0)
AGREEMENT = (*POINT, "agreements", 0)
GAS_FACTOR = (*ADDRESS, "supply_points", 1, "melos", 0, "conversion_factors", 0)
METER = (*POINT, "melos", 0, "meters", 0)
REGISTER = (*METER, "registers", 0)
READINGS = (*REGISTER, "readings")
LEDGER = ("ledgers", 0)
SCHEDULE = ("payment_schedules", 0)
MANDATE = ("payment_instructions", 0)

Path = tuple[str | int, ...]
LIMITS: list[tuple[str, Path, Any, Any]] = [
    ("date_in_future", ("customers", 0, "date_of_birth"), "2026-11-21", "2026-11-22"),
    ("implausible_date_of_birth", ("customers", 0, "date_of_birth"), "1906-01-01", "1905-12-31"),
    ("date_in_future", ("customers", 0, "consents", 0, "signed_at"), "2026-11-21T12:00:00Z", "2026-11-21T12:00:01Z"),
    *(
        ("unassigned_postcode", path, inside, outside)
        for path in (("billing_postcode",), (*ADDRESS, "supply_postcode"))
        for inside, outside in (
            ("01000", "00999"),
            ("04999", "05000"),
            ("06000", "05999"),
            ("42999", "43999"),
            ("61999", "62000"),
            ("00a15", "00815"),
            ("0081", "00819"),
        )
    ),
    *(
        ("date_far_in_future", path, AHEAD.isoformat(), BEYOND.isoformat())
        for path in (
            (*ADDRESS, "customer_at_supply_address_from_date"),
            (*POINT, "supply_start_date"),
            (*AGREEMENT, "effective_from"),
            (*MANDATE, "valid_from"),
            (*SCHEDULE, "start_date"),
        )
    ),
    ("supply_before_move_in", (*ADDRESS, "customer_at_supply_address_from_date"), "2022-01-01", "2022-01-02"),
    ("agreement_after_supply_end", (*POINT, "supply_end_date"), "2022-01-01", "2021-12-31"),
    ("start_date_later_than_end_date", (*POINT, "supply_end_date"), "2022-01-01", "2021-12-31"),
    ("date_in_future", (*POINT, "last_billed_to_date"), "2026-11-21", "2026-11-22"),
    ("billed_before_supply_start", (*POINT, "last_billed_to_date"), "2021-12-31", "2021-12-30"),
    ("negative_number", (*AGREEMENT, "params", "annual_consumption"), "0", "-0.01"),
    ("negative_number", (*AGREEMENT, "params", "annual_consumption"), "-0", "-1"),
    *(
        ("implausible_unit_rate", (*AGREEMENT, "params", rate), "5", "5.0001")
        for rate in (
            "unit_rate_per_kwh",
            "net_unit_rate_per_kwh",
            "night_unit_rate_per_kwh",
            "net_night_unit_rate_per_kwh",
        )
    ),
    ("implausible_unit_rate", (*AGREEMENT, "params", "unit_rate_per_kwh"), "4.9999", "12"),
    ("implausible_conversion_factor", (*GAS_FACTOR, "calorific_value"), "5", "4.9999"),
    ("implausible_conversion_factor", (*GAS_FACTOR, "calorific_value"), "15", "15.0001"),
    ("implausible_conversion_factor", (*GAS_FACTOR, "condition_value"), "0.5", "0.4999"),
    ("implausible_conversion_factor", (*GAS_FACTOR, "condition_value"), "2", "2.0001"),
    ("negative_reading", (*READINGS, 0, "value"), "0", "-0.1"),
    ("date_in_future", (*READINGS, 2, "read_at"), "2026-11-21T12:00:00Z", "2026-11-21T12:00:01Z"),
    ("reading_exceeds_digits", (*REGISTER, "digits"), 5, 4),
    ("reading_exceeds_digits", (*READINGS, 2, "value"), "999999.9", "1000000"),
    ("readings_run_backwards", (*READINGS, 1, "value"), "47232.1", "47232.0"),
    ("readings_run_backwards", (*READINGS, 1, "value"), "49700.1", "49700.2"),
    (
        "reading_outside_active_period",
        (*REGISTER, "active_from"),
        "2022-01-01T23:59:59+01:00",
        "2022-01-02T00:00:00+01:00",
    ),
    (
        "reading_outside_active_period",
        (*REGISTER, "active_to"),
        "2023-06-29T00:00:01+02:00",
        "2023-06-29T00:00:00+02:00",
    ),
    ("readings_run_backwards", (*READINGS, 1, "read_at"), "2022-01-01T00:00:00+01:00", "2021-12-31T23:59:59+01:00"),
    ("obis_code_of_other_medium", (*REGISTER, "obis_code"), "1-0:1.8.0", "7-0:3.0.0"),
    ("obis_code_of_other_medium", (*REGISTER, "obis_code"), "meter 7", "7-meter"),
    ("implausible_register_count", (*METER, "registeranzahl"), "EINTARIF", "ZWEITARIF"),
    ("date_in_future", ("statements", 0, "bill_period_to_date"), "2026-11-21", "2026-11-22"),
    ("negative_number", ("statements", 0, "annual_consumption"), 0, -1),
    ("date_in_future", (*LEDGER, "last_statement_closing_date"), "2026-11-21", "2026-11-22"),
    ("negative_number", (*LEDGER, "current_statement_transactions", 0, "amount"), "0", "-0.01"),
    ("date_in_future", ("notes", 0, "created_at"), "2026-11-21T12:00:00Z", "2026-11-21T12:00:01Z"),
    ("negative_number", (*SCHEDULE, "amount"), 1, -1),
    ("zero_payment_schedule_amount", (*SCHEDULE, "amount"), 1, 0),
    ("ledger_balances_not_equal_to_transfer_balance", ("transfer_balance",), "310.6149", "310.615"),
    ("ledger_balances_not_equal_to_transfer_balance", ("transfer_balance",), "310.6051", "310.605"),
    ("balance_mismatch_on_ledger_balance", (*LEDGER, "last_statement_balance"), "152.3449", "152.345"),
    ("balance_mismatch_on_ledger_balance", (*LEDGER, "last_statement_balance"), "152.3351", "152.335"),
    (
        "transaction_in_future",
        (*LEDGER, "current_statement_transactions", 0, "transaction_date"),
        "2026-11-21",
        "2026-11-22",
    ),
    (
        "current_statement_transaction_before_last_statement_closing_date",
        (*LEDGER, "current_statement_transactions", 0, "transaction_date"),
        "2023-01-01",
        "2022-12-31",
    ),
    ("required", (*MANDATE, "bank_account"), {"account_holder": "A", "account_number": "1"}, {"account_holder": "A"}),
    (
        "required",
        (*MANDATE, "bank_account"),
        {"account_holder": "A", "iban": "DE75955505056996058738"},
        {"account_holder": "A", "iban": " ", "account_number": " "},
    ),
    ("fixed_payment_schedule_missing_day_of_month", (*SCHEDULE, "day_of_month"), 1, ...),
    ("fixed_payment_schedule_missing_frequency", (*SCHEDULE, "frequency"), "MONTHLY", ...),
]
"""Code, place, the last value that is taken, the first that is not."""


IMPLAUSIBLE = {rule.code for rule in PLAUSIBILITY}


def read(account: dict[str, Any]) -> Account:
    submission = read_submission(encoded(account))
    assert list(submission.misfits) == []
    return submission.account


def codes(account: Account) -> set[str]:
    return {breach.problem.code for breach in market.check(account, NOW)}


@pytest.mark.parametrize(
    ("code", "path", "inside", "outside"),
    LIMITS,
    ids=[f"{code}@{'.'.join(map(str, path))}={inside}" for code, path, inside, _ in LIMITS],
)
def test_a_limit_is_where_it_is_said_to_be(code: str, path: Path, inside: Any, outside: Any) -> None:
    within, beyond = (read(changed(an_account(), value, *path)) for value in (inside, outside))
    assert code not in codes(within)
    assert code in codes(beyond)


@pytest.mark.parametrize(("first", "second", "rises"), [("1", "1", True), ("1", "0.9", False)])
def test_two_readings_are_compared(first: str, second: str, rises: bool) -> None:
    early, late = "2022-01-01T00:00:00+01:00", "2022-02-01T00:00:00+01:00"
    for readings in ([(first, early), (second, late)], [(second, late), (first, early)]):
        listed = [{"value": value, "read_at": at} for value, at in readings]
        account = read(changed(an_account(), listed, *READINGS))
        assert ("readings_run_backwards" in codes(account)) is not rises


@pytest.mark.parametrize(
    ("values", "is_plausible"),
    [
        (("1", "2", "999999999999.99"), True),
        (("1", "123456789012345678", "123456789012345677"), False),
        (("1", "9007199254740993", "9007199254740992"), False),
        (("0", "1234567890123456", "5"), False),
        (("0", "-0.5", "5"), False),
    ],
)
def test_long_numbers_are_compared_exactly(values: tuple[str, ...], is_plausible: bool) -> None:
    account = changed(an_account(), ..., *REGISTER, "digits")
    for number, value in enumerate(values):
        account = changed(account, value, *READINGS, number, "value")
    assert bool(codes(read(account)) & IMPLAUSIBLE) is not is_plausible


def test_registers_are_counted_of_meters_for_one_direction_that_still_count() -> None:
    two = changed(an_account(), "ZWEITARIF", *METER, "registeranzahl")
    assert "implausible_register_count" in codes(read(two))
    both_ways = changed(two, "ZWEIRICHTUNGSZAEHLER", *METER, "energierichtung")
    ended = changed(two, "2024-01-01T00:00:00Z", *REGISTER, "active_to")
    none = changed(two, [], *METER, "registers")
    register: Any = two
    for step in REGISTER:
        register = register[step]
    both_rates = changed(two, [register, register], *METER, "registers")
    assert "implausible_register_count" in codes(read(changed(both_rates, [register] * 3, *METER, "registers")))
    for account in (both_ways, ended, none, both_rates):
        assert "implausible_register_count" not in codes(read(account))


@pytest.mark.parametrize(
    ("check", "inside", "outside"),
    [
        (is_market_location_id, "41373559241", "041373559241"),
        (is_market_partner_code, "9907165000001", "99071650000011"),
        (is_market_partner_code, "9800000100003", "9800000100005"),
        (is_market_partner_code, "9900000000011", "9900000000013"),
        (is_market_partner_code, "4000000000013", "4000000000011"),
        (is_metering_location_id, "DE" + "0" * 31, "DE" + "0" * 32),
        (is_metering_location_id, "DE" + "9" * 11 + "Z" * 20, "DE" + "9" * 11 + "Z" * 19),
        (is_metering_location_id, "DE" + "0" * 11 + "A" * 20, "DE" + "0" * 10 + "A" * 21),
        (is_metering_location_id, "DE" + "0" * 11 + "A" * 20, "de" + "0" * 11 + "A" * 20),
        (is_metering_location_id, "DE" + "0" * 11 + "A" * 20, "AT" + "0" * 11 + "A" * 20),
        (is_metering_location_id, "DE" + "0" * 11 + "A" * 20, "DE" + "0" * 11 + "A" * 19 + "a"),
        (is_metering_location_id, "DE" + "0" * 11 + "A" * 20, "XX" + "0" * 11 + "A" * 20),
        (is_postcode, "00000", "000000"),
        (is_postcode, "99999", "9999a"),
        (is_obis_code, "255-255:255.255.255*255", "256-255:255.255.255*255"),
        (is_obis_code, "0-0:0.0", "1-0:1.8.0000"),
        (is_iban, "DE42370400449212890427", "DE423704004492128904270"),
    ],
)
def test_an_identifier_is_neither_longer_nor_shorter(check: Any, inside: str, outside: str) -> None:
    assert check(inside)
    assert not check(outside)
