"""Every rule has an account that keeps it and one that breaks it, and stands where its path says."""

import copy
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect

import market
from market import RULES, Rule, Severity
from market.participant import PARTICIPANT, PRICE_SHEETS
from market.plausibility import PLAUSIBILITY
from market.post_account import DELIVERY_NOTE, ENERGY_AMOUNT, INVOICE
from market.rule import RuleBook
from schemas.account import Account
from schemas.delivery_note import DeliveryNoteImport
from schemas.energy_amount import EnergyAmountImport
from schemas.invoice import MarketParticipantInvoiceImport
from schemas.market_participant import MarketParticipant
from schemas.price_sheet import FeeImport
from schemas.sentence import german_of
from schemas.submission import read_submission
from tests.support.german import is_german
from tests.support.make import an_account, changed, encoded

NOW = datetime(2026, 11, 21, tzinfo=UTC)
POINT = ("supply_addresses", 0, "supply_points", 0)
GAS = ("supply_addresses", 0, "supply_points", 1)
MELO = (*POINT, "melos", 0)
METER = (*MELO, "meters", 0)
REGISTER = (*METER, "registers", 0)
LEDGER = ("ledgers", 0)
AGREEMENTS = (*POINT, "agreements")
SCHEDULE = ("payment_schedules", 0)

Path = tuple[str | int, ...]


def broken(account: dict[str, Any]) -> dict[tuple[str, str], Severity]:
    read = read_submission(encoded(account)).account
    return {(b.problem.attr, b.problem.code): b.severity for b in market.check(read, NOW)}


def twice(*path: str | int) -> dict[str, Any]:
    account = an_account()
    place: Any = account
    for step in path:
        place = place[step]
    return changed(account, [*place, *copy.deepcopy(place)], *path)


def unknown_occupier() -> dict[str, Any]:
    return changed(changed(an_account(), True, "unknown_occupier"), [], "customers")


def two_addresses(**second: Any) -> dict[str, Any]:
    account = an_account()
    [address] = account["supply_addresses"]
    return changed(account, [address, address | second], "supply_addresses")


def agreements(*periods: tuple[str, str | None]) -> dict[str, Any]:
    listed = [{"product_code": "P", "effective_from": start, "effective_to": end} for start, end in periods]
    return changed(an_account(), listed, *AGREEMENTS)


def ordered(path: Path, start: str, end: str) -> tuple[str, str, dict[str, Any]]:
    """The end before the start, in the form that the place has."""
    account = an_account()
    place: Any = account
    for step in path:
        place = place[step]
    early = "1999-01-01" if len(place[start]) == 10 else "1999-01-01T00:00:00Z"
    attr = ".".join(map(str, (*path, "non_field_errors")))
    return attr, "start_date_later_than_end_date", changed(account, early, *path, end)


def at(*path: str | int) -> str:
    return ".".join(map(str, path))


BREACHES: list[tuple[str, str, dict[str, Any]]] = [
    ("customers", "required", changed(an_account(), [], "customers")),
    (
        "customers.0.family_name",
        "customer_family_name_required",
        changed(an_account(), " ", "customers", 0, "family_name"),
    ),
    ("non_field_errors", "customer_with_unknown_occupier", changed(an_account(), True, "unknown_occupier")),
    (
        "non_field_errors",
        "occupier_account_with_multiple_supply_addresses",
        changed(changed(two_addresses(supply_address1="Else"), True, "unknown_occupier"), [], "customers"),
    ),
    (
        "non_field_errors",
        "billing_address_not_provided",
        changed(changed(changed(an_account(), "", "billing_address1"), [], "supply_addresses"), [], "ledgers"),
    ),
    ("billing_postcode", "invalid_postcode", changed(an_account(), "4109", "billing_postcode")),
    ("references.non_field_errors", "children_with_duplicate_values", twice("references")),
    ("account_campaigns.non_field_errors", "duplicate_account_campaigns", twice("account_campaigns")),
    ("metadata.non_field_errors", "metadata_has_duplicate_keys", twice("metadata")),
    (
        "customers.0.family_name",
        "customer_may_not_be_named_the_occupier",
        changed(an_account(), "The Occupier", "customers", 0, "family_name"),
    ),
    ("customers.0.email", "invalid", changed(an_account(), "kunde@", "customers", 0, "email")),
    ("customers.0.mobile", "invalid_phone_number", changed(an_account(), "+49 12", "customers", 0, "mobile")),
    ("customers.0.landline", "invalid_phone_number", changed(an_account(), "none", "customers", 0, "landline")),
    ("customers.0.consents.non_field_errors", "children_with_duplicate_values", twice("customers", 0, "consents")),
    (
        "customers.0.consents.0.signed_at",
        "date_in_future",
        changed(an_account(), "2027-01-01T00:00:00Z", "customers", 0, "consents", 0, "signed_at"),
    ),
    ("supply_addresses.non_field_errors", "duplicate_supply_addresses_found", two_addresses()),
    (
        "supply_addresses.non_field_errors",
        "duplicate_meter_points_on_different_supply_addresses_provided",
        two_addresses(supply_address1="Elsewhere"),
    ),
    (
        "supply_addresses.0.supply_points.non_field_errors",
        "duplicate_meter_points_provided",
        twice("supply_addresses", 0, "supply_points"),
    ),
    (
        "supply_addresses.0.supply_postcode",
        "invalid_postcode",
        changed(an_account(), "D-04109", "supply_addresses", 0, "supply_postcode"),
    ),
    (
        at(*POINT, "identifier"),
        "invalid_supply_point_identifier",
        changed(an_account(), "12345678901", *POINT, "identifier"),
    ),
    ordered(POINT, "supply_start_date", "supply_end_date"),
    (
        at(*AGREEMENTS, "non_field_errors"),
        "gaps_or_overlaps_in_agreement_dates",
        agreements(("2022-01-01", "2022-12-31"), ("2022-06-01", None)),
    ),
    ordered((*AGREEMENTS, 0), "effective_from", "effective_to"),
    (at(*MELO, "melo_number"), "invalid_metering_location_id", changed(an_account(), "DE1", *MELO, "melo_number")),
    (
        at(*METER, "non_field_errors"),
        "start_date_later_than_end_date",
        changed(an_account(), "1999-01-01T00:00:00Z", *METER, "active_to"),
    ),
    (at(*METER, "registers", "non_field_errors"), "meter_with_duplicate_register_ids", twice(*METER, "registers")),
    (at(*REGISTER, "obis_code"), "invalid_obis_code", changed(an_account(), "one", *REGISTER, "obis_code")),
    (
        at(*REGISTER, "non_field_errors"),
        "start_date_later_than_end_date",
        changed(an_account(), "1999-01-01T00:00:00Z", *REGISTER, "active_to"),
    ),
    (
        at(*MELO, "electricity_meter_gateways", 0, "non_field_errors"),
        "start_date_later_than_end_date",
        changed(an_account(), "1999-01-01T00:00:00Z", *MELO, "electricity_meter_gateways", 0, "valid_to"),
    ),
    ordered((*MELO, "conversion_factors", 0), "active_from_date", "active_to_date"),
    (
        at(*POINT, "previous_supplier_id"),
        "invalid_market_partner_code",
        changed(an_account(), "9900123456789", *POINT, "previous_supplier_id"),
    ),
    *(
        entry
        for kind in ("meter_operators", "network_operators", "transmission_system_operators")
        for entry in (
            (
                at(*POINT, kind, 0, "non_field_errors"),
                "start_date_later_than_end_date",
                changed(an_account(), "1999-01-01T00:00:00Z", *POINT, kind, 0, "valid_to"),
            ),
            (
                at(*POINT, kind, 0, "code"),
                "invalid_market_partner_code",
                changed(an_account(), "9900123456789", *POINT, kind, 0, "code"),
            ),
        )
    ),
    (
        at(*POINT, "balancing_periods", 0, "non_field_errors"),
        "start_date_later_than_end_date",
        changed(an_account(), "1999-01-01T00:00:00Z", *POINT, "balancing_periods", 0, "valid_to"),
    ),
    (
        at(*POINT, "balancing_periods", 0, "balancing_period_time_slices", 0, "non_field_errors"),
        "start_date_later_than_end_date",
        changed(
            an_account(), "1999-01-01", *POINT, "balancing_periods", 0, "balancing_period_time_slices", 0, "valid_to"
        ),
    ),
    ordered((*GAS, "articles", 0), "period_start_at", "period_end_at"),
    (
        at(*GAS, "gas_supply_point_load_profiles", 0, "non_field_errors"),
        "start_date_later_than_end_date",
        changed(an_account(), "1999-01-01T00:00:00Z", *GAS, "gas_supply_point_load_profiles", 0, "valid_to"),
    ),
    (
        at(*GAS, "gas_supply_point_load_profiles", 0, "marktgebiet"),
        "invalid_energy_identification_code",
        changed(an_account(), "THE", *GAS, "gas_supply_point_load_profiles", 0, "marktgebiet"),
    ),
    (
        at(*POINT, "electricity_supply_point_load_profiles", 0, "non_field_errors"),
        "start_date_later_than_end_date",
        changed(an_account(), "1999-01-01T00:00:00Z", *POINT, "electricity_supply_point_load_profiles", 0, "valid_to"),
    ),
    *(
        (
            at(*POINT, "electricity_supply_point_load_profiles", 0, field),
            "invalid_energy_identification_code",
            changed(an_account(), "11YHAMBURG-NETZX", *POINT, "electricity_supply_point_load_profiles", 0, field),
        )
        for field in ("bilanzierungsgebiet", "regelzone", "bilanzkreis")
    ),
    (
        "non_field_errors",
        "ledger_balances_not_equal_to_transfer_balance",
        changed(an_account(), "999999.99", "transfer_balance"),
    ),
    ("ledgers.non_field_errors", "unknown_ledger_identifiers", changed(an_account(), ["1"], *LEDGER, "identifiers")),
    ("statements.non_field_errors", "historical_statement_already_exists", twice("statements")),
    ordered(("statements", 0), "bill_period_from_date", "bill_period_to_date"),
    (
        "statements.0.statement_path",
        "invalid",
        changed(an_account(), "../other.pdf", "statements", 0, "statement_path"),
    ),
    ("ledgers.non_field_errors", "duplicate_ledger_entries_found", twice("ledgers")),
    ("ledgers.non_field_errors", "duplicate_identifiers_entries_found", twice(*LEDGER, "identifiers")),
    ("ledgers.non_field_errors", "duplicate_transaction_ids", twice(*LEDGER, "current_statement_transactions")),
    (
        "ledgers.0.non_field_errors",
        "balance_mismatch_on_ledger_balance",
        changed(an_account(), "0.00", *LEDGER, "last_statement_balance"),
    ),
    (
        "ledgers.0.non_field_errors",
        "current_statement_transaction_before_last_statement_closing_date",
        changed(an_account(), "2024-01-01", *LEDGER, "last_statement_closing_date"),
    ),
    (
        "ledgers.0.current_statement_transactions.0.transaction_date",
        "transaction_in_future",
        changed(an_account(), "2027-01-01", *LEDGER, "current_statement_transactions", 0, "transaction_date"),
    ),
    (
        "payment_instructions.non_field_errors",
        "payment_instructions_ledger_code_uniformity_failed",
        changed(twice("payment_instructions"), "", "payment_instructions", 0, "ledger_code"),
    ),
    (
        "payment_instructions.0.bank_account.iban",
        "required",
        changed(an_account(), {"account_holder": "Anna"}, "payment_instructions", 0, "bank_account"),
    ),
    (
        "payment_instructions.0.bank_account.iban",
        "invalid_iban",
        changed(an_account(), "DE00370400440532013000", "payment_instructions", 0, "bank_account", "iban"),
    ),
    (
        "payment_schedules.non_field_errors",
        "payment_schedules_ledger_code_uniformity_failed",
        changed(twice("payment_schedules"), "", *SCHEDULE, "ledger_code"),
    ),
    ("payment_schedules.non_field_errors", "payment_schedule_date_overlaps", twice("payment_schedules")),
    ("payment_schedules.0.amount", "zero_payment_schedule_amount", changed(an_account(), 0, *SCHEDULE, "amount")),
    (
        "payment_schedules.0.frequency",
        "fixed_payment_schedule_missing_frequency",
        changed(an_account(), ..., *SCHEDULE, "frequency"),
    ),
    (
        "payment_schedules.0.day_of_month",
        "fixed_payment_schedule_missing_day_of_month",
        changed(an_account(), ..., *SCHEDULE, "day_of_month"),
    ),
]


READING = (*REGISTER, "readings", 0)
AGREEMENT = (*AGREEMENTS, 0)
FACTOR = (*GAS, "melos", 0, "conversion_factors", 0)
IMPLAUSIBLE: list[tuple[str, str, Path, Any]] = [
    ("date_in_future", "", ("customers", 0, "date_of_birth"), "2027-01-01"),
    ("implausible_date_of_birth", "", ("customers", 0, "date_of_birth"), "1890-01-01"),
    ("unassigned_postcode", "", ("billing_postcode",), "00815"),
    ("unassigned_postcode", "", ("supply_addresses", 0, "supply_postcode"), "62001"),
    ("date_far_in_future", "", ("supply_addresses", 0, "customer_at_supply_address_from_date"), "2203-01-01"),
    (
        "supply_before_move_in",
        "non_field_errors",
        ("supply_addresses", 0, "customer_at_supply_address_from_date"),
        "2022-02-01",
    ),
    ("date_far_in_future", "", (*POINT, "supply_start_date"), "2203-01-01"),
    ("date_far_in_future", "", (*AGREEMENT, "effective_from"), "2203-01-01"),
    ("agreement_after_supply_end", "non_field_errors", (*POINT, "supply_end_date"), "2021-12-31"),
    ("date_in_future", "", (*POINT, "last_billed_to_date"), "2027-01-01"),
    ("billed_before_supply_start", "last_billed_to_date", (*POINT, "last_billed_to_date"), "2021-12-30"),
    ("obis_code_of_other_medium", "non_field_errors", (*POINT, "supply_type"), "GAS"),
    ("negative_number", "", (*AGREEMENT, "params", "annual_consumption"), "-1"),
    ("implausible_unit_rate", "", (*AGREEMENT, "params", "unit_rate_per_kwh"), "31.23"),
    ("implausible_unit_rate", "", (*AGREEMENT, "params", "net_unit_rate_per_kwh"), "31.23"),
    ("implausible_unit_rate", "", (*AGREEMENT, "params", "night_unit_rate_per_kwh"), "31.23"),
    ("implausible_unit_rate", "", (*AGREEMENT, "params", "net_night_unit_rate_per_kwh"), "31.23"),
    ("implausible_conversion_factor", "", (*FACTOR, "calorific_value"), "112.14"),
    ("implausible_conversion_factor", "", (*FACTOR, "condition_value"), "95.53"),
    ("implausible_register_count", "non_field_errors", (*METER, "registeranzahl"), "ZWEITARIF"),
    ("negative_reading", "", (*READING, "value"), "-1"),
    ("date_in_future", "", (*READING, "read_at"), "2027-01-01T00:00:00Z"),
    ("reading_exceeds_digits", "non_field_errors", (*REGISTER, "digits"), 3),
    ("readings_run_backwards", "../../non_field_errors", (*READING, "value"), "49000"),
    ("reading_outside_active_period", "../../non_field_errors", (*READING, "read_at"), "2021-12-30T00:00:00Z"),
    ("reading_outside_active_period", "non_field_errors", (*REGISTER, "active_to"), "2023-01-01T00:00:00Z"),
    ("date_in_future", "", ("statements", 0, "bill_period_to_date"), "2027-01-01"),
    ("negative_number", "", ("statements", 0, "annual_consumption"), -1),
    ("date_in_future", "", (*LEDGER, "last_statement_closing_date"), "2027-01-01"),
    ("negative_number", "", (*LEDGER, "current_statement_transactions", 0, "amount"), "-1"),
    ("date_far_in_future", "", ("payment_instructions", 0, "valid_from"), "2203-01-01"),
    ("negative_number", "", (*SCHEDULE, "amount"), -1),
    ("date_far_in_future", "", (*SCHEDULE, "start_date"), "2203-01-01"),
    ("date_in_future", "", ("notes", 0, "created_at"), "2027-01-01T00:00:00Z"),
]
"""Code, where it is told ("" for the place itself, a name beside it, ../../ for two steps above), place, value."""


def told_at(field: str, path: Path) -> str:
    up = field.count("../") + 1
    return at(*path) if not field else at(*path[:-up], field.removeprefix("../../"))


PLAUSIBLE: list[tuple[Path, Any]] = [
    (("customers", 0, "date_of_birth"), "2026-11-21"),
    (("customers", 0, "date_of_birth"), "1910-01-01"),
    (("billing_postcode",), "99998"),
    ((*POINT, "supply_start_date"), "2022-01-01"),
    ((*POINT, "last_billed_to_date"), "2021-12-31"),
    ((*AGREEMENT, "params", "unit_rate_per_kwh"), "0.9999"),
    ((*FACTOR, "calorific_value"), "8.4"),
    ((*READING, "value"), "0"),
    ((*READING, "value"), "-0.0"),
    ((*READING, "read_at"), "2021-12-31T23:30:00+01:00"),
    ((*REGISTER, "digits"), 32),
    ((*REGISTER, "active_to"), "2023-06-30T00:00:00Z"),
    ((*SCHEDULE, "start_date"), "2028-01-01"),
]
"""Values at the edge of what the rules take."""

BREACHES += [
    (told_at(field, path), code, changed(an_account(), value, *path)) for code, field, path, value in IMPLAUSIBLE
]


@pytest.mark.promise("implausible-least-warning-births")
def test_what_is_implausible_is_a_warning() -> None:
    assert {rule.severity for rule in PLAUSIBILITY} == {Severity.WARNING}


NUMBERS = ("0", "-0", "-1", "4.99", "5", "5.0001", "31", "99999", "999999.9", "0.1", "123456789012345.6")
DAYS = (
    *("0001-01-01", "1890-05-05", "2021-12-30", "2021-12-31", "2022-01-01", "2022-12-31", "2025-12-31", "2026-11-20"),
    *("2026-11-21", "2026-11-22", "2027-12-31", "2028-11-22", "2028-11-23", "2028-11-24", "9999-12-31"),
)
TEXTS = ("00815", "05", "43000", "10115", "EINTARIF", "ZWEITARIF", "GAS", "7-1:1.8.0", "1-1:1.8.0")
VALUES = st.sampled_from((*NUMBERS, *DAYS, *TEXTS)) | st.integers(-1, 7)
PLACES: list[Path] = [
    *dict.fromkeys([path for _, _, path, _ in IMPLAUSIBLE] + [path for path, _ in PLAUSIBLE]),
    (*REGISTER, "readings", 1, "value"),
    (*REGISTER, "readings", 2, "read_at"),
    (*REGISTER, "active_from"),
    (*REGISTER, "obis_code"),
]


def called(rule: Rule) -> Rule:
    """The rule, whose check is called wherever it is asked."""
    check = rule.holds
    return msgspec.structs.replace(rule, holds=lambda *arguments: check(*arguments))


INLINED, CALLED = RuleBook(PLAUSIBILITY), RuleBook(map(called, PLAUSIBILITY))


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(st.tuples(st.sampled_from(PLACES), VALUES), max_size=3))
def test_what_is_inlined_of_plausibility_says_what_its_checks_say(changes: list[tuple[Path, Any]]) -> None:
    account = an_account()
    for path, value in changes:
        is_moment = str(path[-1]) in ("read_at", "active_from", "active_to", "created_at") and "-" in str(value)[1:]
        account = changed(account, f"{value}T12:00:00Z" if is_moment else value, *path)
    submission = read_submission(encoded(account))
    if not submission.misfits:
        assert INLINED.breaches(submission.account, NOW) == CALLED.breaches(submission.account, NOW)


@pytest.mark.parametrize(("path", "value"), PLAUSIBLE, ids=[f"{at(*path)}={value}" for path, value in PLAUSIBLE])
def test_what_lies_at_the_edge_is_plausible(path: Path, value: Any) -> None:
    assert broken(changed(an_account(), value, *path)) == {}


@pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31"])
def test_the_ends_of_the_calendar_are_judged_as_other_days(day: str) -> None:
    account = an_account()
    days: list[Path] = [(*POINT, "supply_start_date"), (*POINT, "last_billed_to_date")]
    moments: list[Path] = [(*REGISTER, "active_from"), (*REGISTER, "active_to"), (*READING, "read_at")]
    for path in days:
        account = changed(account, day, *path)
    for path in moments:
        account = changed(account, f"{day}T00:00:00Z", *path)
    assert broken(account)


def test_the_complete_account_breaks_no_rule() -> None:
    assert broken(an_account()) == {}


@pytest.mark.promise("family-name-may-empty")
@pytest.mark.parametrize("names", [("", "Groß"), ("Groß", ""), ("", " ", "Groß")])
def test_one_customer_with_a_family_name_is_enough(names: tuple[str, ...]) -> None:
    [first, *_] = an_account()["customers"]
    customers = [first | {"family_name": name} for name in names]
    assert broken(changed(an_account(), customers, "customers")) == {}


@pytest.mark.promise("family-name-may-empty")
def test_two_customers_without_family_names_are_refused() -> None:
    [first, *_] = an_account()["customers"]
    customers = [first | {"family_name": ""}, {name: v for name, v in first.items() if name != "family_name"}]
    found = broken(changed(an_account(), customers, "customers"))
    assert found == {("customers.0.family_name", "customer_family_name_required"): Severity.ERROR}


@pytest.mark.promise("gaps-between-agreements-supply")
@pytest.mark.parametrize(
    ("start", "periods", "is_kept"),
    [
        ("2022-06-01", (("2021-01-01", "2021-12-31"), ("2022-06-01", None)), True),
        ("2022-06-02", (("2021-01-01", "2021-12-31"), ("2022-06-01", None)), True),
        ("2022-05-31", (("2021-01-01", "2021-12-31"), ("2022-06-01", None)), False),
        ("2020-01-01", (("2021-01-01", "2021-12-31"), ("2022-06-01", None)), False),
        ("2022-06-01", (("2021-01-01", "2022-07-31"), ("2022-06-01", None)), False),
        ("2022-06-01", (("2021-01-01", None), ("2022-06-01", None)), False),
        (
            "2022-06-01",
            (("2020-01-01", "2020-12-31"), ("2021-03-01", "2022-06-30"), ("2022-08-01", None)),
            False,
        ),
    ],
)
def test_gaps_between_agreements_are_left_alone_before_supply_starts(
    start: str, periods: tuple[tuple[str, str | None], ...], is_kept: bool
) -> None:
    found = broken(changed(agreements(*periods), start, *POINT, "supply_start_date"))
    expected = (at(*AGREEMENTS, "non_field_errors"), "gaps_or_overlaps_in_agreement_dates")
    assert (expected not in found) == is_kept


def test_an_account_of_an_unknown_occupier_needs_no_customers() -> None:
    assert broken(unknown_occupier()) == {}


WARNED_OF = {
    "invalid_postcode",
    "invalid_supply_point_identifier",
    "invalid_metering_location_id",
    "invalid_obis_code",
    "invalid_market_partner_code",
    "invalid_energy_identification_code",
    "balance_mismatch_on_ledger_balance",
    "current_statement_transaction_before_last_statement_closing_date",
    "transaction_in_future",
}
"""Codes of warnings, beside what is implausible: everything else refuses an account."""


@pytest.mark.promise("wrong-postcode-malo-melo")
@pytest.mark.asvs("V2.2.3")
@pytest.mark.parametrize(("attr", "code", "account"), BREACHES, ids=[f"{code}@{attr}" for attr, code, _ in BREACHES])
def test_a_broken_rule_is_named_with_its_path(attr: str, code: str, account: dict[str, Any]) -> None:
    is_warning = code in WARNED_OF or (attr, code) in {(told_at(f, path), c) for c, f, path, _ in IMPLAUSIBLE}
    assert broken(account)[attr, code] is (Severity.WARNING if is_warning else Severity.ERROR)


@pytest.mark.parametrize(("attr", "code", "account"), BREACHES, ids=[f"{code}@{attr}" for attr, code, _ in BREACHES])
def test_a_broken_rule_is_told_in_german(attr: str, code: str, account: dict[str, Any]) -> None:
    read = read_submission(encoded(account)).account
    for breach in market.check(read, NOW):
        assert breach.problem.detail != german_of(breach.problem.detail)
        assert is_german(german_of(breach.problem.detail))


def without_indexes(attr: str) -> str:
    return ".".join("[]" if step.isdigit() else step for step in attr.split(".")).replace(".[]", "[]")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.code}@{rule.at}")
def test_every_rule_has_an_example_that_breaks_it(rule: Rule) -> None:
    places = {without_indexes(attr) for attr, code, _ in BREACHES if code == rule.code}
    wanted = {rule.at, without_indexes(f"{rule.at}.{rule.field}".lstrip("."))}
    assert places & wanted, f"no example for {rule.code} at {rule.at or 'the account'}"


PLACED = [
    (shape, rule)
    for shape, rules in (
        (Account, RULES),
        (MarketParticipant, PARTICIPANT),
        (FeeImport, PRICE_SHEETS),
        (DeliveryNoteImport, DELIVERY_NOTE),
        (EnergyAmountImport, ENERGY_AMOUNT),
        (MarketParticipantInvoiceImport, INVOICE),
    )
    for rule in rules
]


@pytest.mark.parametrize(("shape", "rule"), PLACED, ids=[f"{rule.code}@{rule.at}" for _, rule in PLACED])
def test_every_rule_names_a_place_of_the_shape_and_a_source(shape: type, rule: Rule) -> None:
    node: inspect.Type = inspect.type_info(shape)
    for step in rule.at.split(".") if rule.at else ():
        assert isinstance(node, inspect.StructType), rule.at
        node = next(field.type for field in node.fields if field.name == step.removesuffix("[]"))
        if isinstance(node, inspect.UnionType):
            node = next(member for member in node.types if not isinstance(member, inspect.NoneType))
        if step.endswith("[]"):
            assert isinstance(node, inspect.VarTupleType), rule.at
            node = node.item_type
    assert isinstance(rule.source, str)
    assert len(rule.source) > 5
    assert "None" not in rule.source
    assert rule.says.endswith(".")
    assert rule.code == rule.code.lower()


@pytest.mark.parametrize(
    "periods",
    [
        [("2022-01-01", "2022-12-31"), ("2023-01-01", None)],
        [("2022-01-01", "2023-01-01"), ("2023-01-01", "2024-01-01")],
        [("2023-01-01", None), ("2022-01-01", "2022-12-31")],
    ],
)
def test_agreements_may_end_on_the_last_day_or_on_the_first_day_after(periods: list[tuple[str, str | None]]) -> None:
    assert broken(agreements(*periods)) == {}


@pytest.mark.parametrize("periods", [[("2022-01-01", "2022-11-30"), ("2023-01-01", None)], [("2022-01-01", None)] * 2])
def test_gaps_and_open_ends_between_agreements_are_broken(periods: list[tuple[str, str | None]]) -> None:
    assert (at(*AGREEMENTS, "non_field_errors"), "gaps_or_overlaps_in_agreement_dates") in broken(agreements(*periods))


def test_misfits_and_breaches_are_found_together() -> None:
    account = changed(an_account(), 5, "customers", 0, "mobile")
    account = changed(account, "kunde@", "customers", 0, "email")
    account = changed(account, ..., *LEDGER, "ledger_code")
    account = changed(account, "never", *POINT, "supply_start_date")
    account = changed(account, "12345678901", *POINT, "identifier")
    account = changed(account, "x", "payment_schedules")
    submission = read_submission(encoded(account))
    found = {(b.problem.attr, b.problem.code) for b in market.check(submission.account, NOW, submission.misfits)}
    assert len(submission.misfits) == 4
    assert found == {
        ("customers.0.email", "invalid"),
        (at(*POINT, "identifier"), "invalid_supply_point_identifier"),
        ("ledgers.non_field_errors", "unknown_ledger_identifiers"),
    }


@pytest.mark.parametrize(("attr", "code", "account"), BREACHES, ids=[f"{code}@{attr}" for attr, code, _ in BREACHES])
def test_a_misfit_elsewhere_hides_no_breach(attr: str, code: str, account: dict[str, Any]) -> None:
    submission = read_submission(encoded(changed(account, 5, "sales_channel")))
    found = {(b.problem.attr, b.problem.code) for b in market.check(submission.account, NOW, submission.misfits)}
    assert (attr, code) in found


@pytest.mark.promise("every-error-once-object")
def test_rules_over_the_account_are_asked_when_a_field_is_missing() -> None:
    submission = read_submission(b'{"import_supplier": "X"}')
    found = {(b.problem.attr, b.problem.code) for b in market.check(submission.account, NOW, submission.misfits)}
    assert [misfit.attr for misfit in submission.misfits] == ["external_account_number"]
    assert found == {("customers", "required"), ("non_field_errors", "billing_address_not_provided")}


@pytest.mark.promise("every-error-once-object")
@pytest.mark.parametrize(
    ("path", "value", "attr", "code"),
    [
        ((*METER, "meter_number"), ..., at(*METER, "non_field_errors"), "start_date_later_than_end_date"),
        (
            ("supply_addresses", 0, "nickname"),
            "x",
            "supply_addresses.non_field_errors",
            "duplicate_supply_addresses_found",
        ),
        ((*LEDGER, "ledger_code"), 5, "non_field_errors", "ledger_balances_not_equal_to_transfer_balance"),
        (("customers", 0, "email"), 5, "non_field_errors", "customer_with_unknown_occupier"),
    ],
)
def test_a_rule_over_an_object_is_asked_unless_what_it_reads_is_a_problem(
    path: Path, value: Any, attr: str, code: str
) -> None:
    account = next(account for a, c, account in BREACHES if (a, c) == (attr, code))
    submission = read_submission(encoded(changed(account, value, *path)))
    assert submission.misfits
    found = {(b.problem.attr, b.problem.code) for b in market.check(submission.account, NOW, submission.misfits)}
    assert (attr, code) in found


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("transfer_balance",), "x"),
        ((*LEDGER, "ledger_balance"), "x"),
        ((*POINT, "identifier"), 5),
        (("customers",), "x"),
        (("supply_addresses",), 5),
        ((*REGISTER, "readings", 1, "value"), "x"),
        ((*AGREEMENTS, 0, "effective_from"), "x"),
    ],
)
def test_what_a_misfit_stands_for_breaks_no_rule(path: Path, value: Any) -> None:
    submission = read_submission(encoded(changed(an_account(), value, *path)))
    assert submission.misfits
    assert list(market.check(submission.account, NOW, submission.misfits)) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.code}@{rule.at}")
def test_what_a_rule_says_that_it_reads_is_there(rule: Rule) -> None:
    for place in rule.reads or ():
        node: inspect.Type = inspect.type_info(Account)
        steps = [*(rule.at.replace("[]", ".[]").split(".") if rule.at else ()), *place]
        for step in steps:
            if isinstance(node, inspect.UnionType):
                node = next(m for m in node.types if not isinstance(m, inspect.NoneType))
            if step == "[]":
                assert isinstance(node, inspect.VarTupleType), rule.at
                node = node.item_type
            else:
                assert isinstance(node, inspect.StructType), rule.at
                node = next(field.type for field in node.fields if field.name == step)


def test_all_breaches_are_found_at_once() -> None:
    account = changed(an_account(), "+49 12", "customers", 0, "mobile")
    account = changed(account, "kunde@", "customers", 0, "email")
    account = changed(account, "12345678901", *POINT, "identifier")
    found = broken(account)
    assert found[("customers.0.mobile", "invalid_phone_number")] is Severity.ERROR
    assert found[("customers.0.email", "invalid")] is Severity.ERROR
    assert found[(at(*POINT, "identifier"), "invalid_supply_point_identifier")] is Severity.WARNING
