"""Every rule has an account that meets it and one that breaks it, and is reported at its path."""

import copy
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

import market
from market import RULES
from market.plausibility import PLAUSIBILITY
from market.rule import Rule, Severity
from schemas.submission import read_submission
from tests.support.make import an_account, changed, encoded, value_at

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
AHEAD = date(2026, 11, 21) + timedelta(days=2 * 366)
BEYOND = AHEAD + timedelta(days=1)
ADDRESS = ("supply_addresses", 0)
POINT = ("supply_addresses", 0, "supply_points", 0)
GAS = ("supply_addresses", 0, "supply_points", 1)
MELO = (*POINT, "melos", 0)
METER = (*MELO, "meters", 0)
REGISTER = (*METER, "registers", 0)
LEDGER = ("ledgers", 0)
AGREEMENTS = (*POINT, "agreements")
SCHEDULE = ("payment_schedules", 0)
MANDATE = ("payment_instructions", 0)

Path = tuple[str | int, ...]


def broken(account: dict[str, Any]) -> dict[tuple[str, str], Severity]:
    read = read_submission(encoded(account)).account
    return {(b.problem.attr, b.problem.code): b.severity for b in market.check(read, NOW)}


def codes(account: dict[str, Any]) -> set[str]:
    return {code for _, code in broken(account)}


def twice(*path: str | int) -> dict[str, Any]:
    place = value_at(an_account(), path)
    return changed(an_account(), [*place, *copy.deepcopy(place)], *path)


def unknown_occupier() -> dict[str, Any]:
    return changed(changed(an_account(), True, "unknown_occupier"), [], "customers")


def two_addresses(**second: Any) -> dict[str, Any]:
    account = an_account()
    [address] = account["supply_addresses"]
    return changed(account, [address, address | second], "supply_addresses")


def agreements(*periods: tuple[str, str | None]) -> dict[str, Any]:
    listed = [{"product_code": "P", "effective_from": start, "effective_to": end} for start, end in periods]
    return changed(an_account(), listed, *AGREEMENTS)


def at(*path: str | int) -> str:
    return ".".join(map(str, path))


BREACHES: list[tuple[str, str, dict[str, Any]]] = [
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
    (
        at(*POINT, "last_billed_to_date"),
        "billed_before_supply_start",
        changed(an_account(), "2021-12-30", *POINT, "last_billed_to_date"),
    ),
    ("references.non_field_errors", "children_with_duplicate_values", twice("references")),
    ("account_campaigns.non_field_errors", "duplicate_account_campaigns", twice("account_campaigns")),
    ("metadata.non_field_errors", "metadata_has_duplicate_keys", twice("metadata")),
    ("customers.0.consents.non_field_errors", "children_with_duplicate_values", twice("customers", 0, "consents")),
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
        at(*AGREEMENTS, "non_field_errors"),
        "gaps_or_overlaps_in_agreement_dates",
        agreements(("2022-01-01", "2022-12-31"), ("2022-06-01", None)),
    ),
    (at(*METER, "registers", "non_field_errors"), "meter_with_duplicate_register_ids", twice(*METER, "registers")),
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
    *(
        (
            at(*POINT, "electricity_supply_point_load_profiles", 0, field),
            "invalid_energy_identification_code",
            changed(an_account(), "11YHAMBURG-NETZX", *POINT, "electricity_supply_point_load_profiles", 0, field),
        )
        for field in ("bilanzierungsgebiet", "regelzone", "bilanzkreis")
    ),
    ("ledgers.non_field_errors", "unknown_ledger_identifiers", changed(an_account(), ["1"], *LEDGER, "identifiers")),
    (
        "payment_instructions.0.bank_account.iban",
        "required",
        changed(an_account(), {"account_holder": "Anna"}, "payment_instructions", 0, "bank_account"),
    ),
    ("statements.non_field_errors", "historical_statement_already_exists", twice("statements")),
    ("ledgers.non_field_errors", "duplicate_ledger_entries_found", twice("ledgers")),
    ("ledgers.non_field_errors", "duplicate_identifiers_entries_found", twice(*LEDGER, "identifiers")),
    ("ledgers.non_field_errors", "duplicate_transaction_ids", twice(*LEDGER, "current_statement_transactions")),
    (
        "payment_instructions.non_field_errors",
        "payment_instructions_ledger_code_uniformity_failed",
        changed(twice("payment_instructions"), "", "payment_instructions", 0, "ledger_code"),
    ),
    (
        "payment_schedules.non_field_errors",
        "payment_schedules_ledger_code_uniformity_failed",
        changed(twice("payment_schedules"), "", *SCHEDULE, "ledger_code"),
    ),
    ("payment_schedules.non_field_errors", "payment_schedule_date_overlaps", twice("payment_schedules")),
]


READINGS = (*REGISTER, "readings")
AGREEMENT = (*AGREEMENTS, 0)
GAS_FACTOR = (*GAS, "melos", 0, "conversion_factors", 0)
BROKEN: list[tuple[str, str, Path, Any]] = [
    ("required", "", ("customers",), []),
    ("customer_family_name_required", "", ("customers", 0, "family_name"), " "),
    ("customer_with_unknown_occupier", "non_field_errors", ("unknown_occupier",), True),
    ("invalid_postcode", "", ("billing_postcode",), "4109"),
    ("customer_may_not_be_named_the_occupier", "", ("customers", 0, "family_name"), "The Occupier"),
    ("invalid", "", ("customers", 0, "email"), "kunde@"),
    ("invalid_phone_number", "", ("customers", 0, "mobile"), "+49 12"),
    ("invalid_phone_number", "", ("customers", 0, "landline"), "none"),
    ("date_in_future", "", ("customers", 0, "consents", 0, "signed_at"), "2027-01-01T00:00:00Z"),
    ("invalid_postcode", "", ("supply_addresses", 0, "supply_postcode"), "D-04109"),
    ("invalid_supply_point_identifier", "", (*POINT, "identifier"), "12345678901"),
    ("invalid_metering_location_id", "", (*MELO, "melo_number"), "DE1"),
    ("invalid_obis_code", "", (*REGISTER, "obis_code"), "one"),
    ("invalid_market_partner_code", "", (*POINT, "previous_supplier_id"), "9900123456789"),
    ("invalid_energy_identification_code", "", (*GAS, "gas_supply_point_load_profiles", 0, "marktgebiet"), "THE"),
    ("ledger_balances_not_equal_to_transfer_balance", "non_field_errors", ("transfer_balance",), "999999.99"),
    ("invalid", "", ("statements", 0, "statement_path"), "../other.pdf"),
    ("balance_mismatch_on_ledger_balance", "non_field_errors", (*LEDGER, "last_statement_balance"), "0.00"),
    (
        "current_statement_transaction_before_last_statement_closing_date",
        "non_field_errors",
        (*LEDGER, "last_statement_closing_date"),
        "2024-01-01",
    ),
    ("transaction_in_future", "", (*LEDGER, "current_statement_transactions", 0, "transaction_date"), "2027-01-01"),
    ("invalid_iban", "", ("payment_instructions", 0, "bank_account", "iban"), "DE00370400440532013000"),
    ("zero_payment_schedule_amount", "", (*SCHEDULE, "amount"), 0),
    ("fixed_payment_schedule_missing_frequency", "", (*SCHEDULE, "frequency"), ...),
    ("fixed_payment_schedule_missing_day_of_month", "", (*SCHEDULE, "day_of_month"), ...),
    *(
        ("start_date_later_than_end_date", "non_field_errors", path, value)
        for value, paths in {
            "1999-01-01": (
                (*POINT, "supply_end_date"),
                (*AGREEMENTS, 0, "effective_to"),
                (*MELO, "conversion_factors", 0, "active_to_date"),
                (*POINT, "balancing_periods", 0, "balancing_period_time_slices", 0, "valid_to"),
                ("statements", 0, "bill_period_to_date"),
            ),
            "1999-01-01T00:00:00Z": (
                (*METER, "active_to"),
                (*REGISTER, "active_to"),
                (*MELO, "electricity_meter_gateways", 0, "valid_to"),
                (*POINT, "balancing_periods", 0, "valid_to"),
                (*GAS, "articles", 0, "period_end_at"),
                (*GAS, "gas_supply_point_load_profiles", 0, "valid_to"),
                (*POINT, "electricity_supply_point_load_profiles", 0, "valid_to"),
            ),
        }.items()
        for path in paths
    ),
]
"""Code, field of the problem ("" for the place itself, or a name beside it), place, value."""
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
    ("obis_code_of_other_medium", (*GAS, "melos", 0, "meters", 0, "registers", 0, "obis_code"), "7-meter", "1-meter"),
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
"""Code, place, last accepted value, first refused value."""
BREACHES += [
    (at(*path) if not field else at(*path[:-1], field), code, changed(an_account(), value, *path))
    for code, field, path, value in BROKEN
]
BREACHES += [
    (attr, code, account)
    for code, path, _, outside in LIMITS
    for account in [changed(an_account(), outside, *path)]
    for attr, found in broken(account)
    if found == code
]


@pytest.mark.promise("implausible-least-warning-births")
def test_what_is_implausible_is_a_warning() -> None:
    assert {rule.severity for rule in PLAUSIBILITY} == {Severity.WARNING}


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
    is_warning = code in {*WARNED_OF, *(rule.code for rule in PLAUSIBILITY)} and not attr.endswith(".signed_at")
    assert broken(account)[attr, code] is (Severity.WARNING if is_warning else Severity.ERROR)


def without_indexes(attr: str) -> str:
    return ".".join("[]" if step.isdigit() else step for step in attr.split(".")).replace(".[]", "[]")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.code}@{rule.at}")
def test_every_rule_has_an_example_that_breaks_it(rule: Rule) -> None:
    places = {without_indexes(attr) for attr, code, _ in BREACHES if code == rule.code}
    wanted = {rule.at, without_indexes(f"{rule.at}.{rule.field}".lstrip("."))}
    assert places & wanted, f"no example for {rule.code} at {rule.at or 'the account'}"


def test_shape_errors_and_breaches_are_found_together() -> None:
    account = changed(an_account(), 5, "customers", 0, "mobile")
    account = changed(account, "kunde@", "customers", 0, "email")
    account = changed(account, ..., *LEDGER, "ledger_code")
    account = changed(account, "never", *POINT, "supply_start_date")
    account = changed(account, "12345678901", *POINT, "identifier")
    account = changed(account, "x", "payment_schedules")
    submission = read_submission(encoded(account))
    found = {(b.problem.attr, b.problem.code) for b in market.check(submission.account, NOW, submission.shape_errors)}
    assert len(submission.shape_errors) == 4
    assert found == {
        ("customers.0.email", "invalid"),
        (at(*POINT, "identifier"), "invalid_supply_point_identifier"),
        ("ledgers.non_field_errors", "unknown_ledger_identifiers"),
    }


@pytest.mark.promise("every-error-once-object")
def test_rules_over_the_account_are_asked_when_a_field_is_missing() -> None:
    submission = read_submission(b'{"import_supplier": "X"}')
    found = {(b.problem.attr, b.problem.code) for b in market.check(submission.account, NOW, submission.shape_errors)}
    assert [shape_error.attr for shape_error in submission.shape_errors] == ["external_account_number"]
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
    assert submission.shape_errors
    found = {(b.problem.attr, b.problem.code) for b in market.check(submission.account, NOW, submission.shape_errors)}
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
def test_what_a_shape_error_stands_for_breaks_no_rule(path: Path, value: Any) -> None:
    submission = read_submission(encoded(changed(an_account(), value, *path)))
    assert submission.shape_errors
    assert list(market.check(submission.account, NOW, submission.shape_errors)) == []


@pytest.mark.parametrize(
    ("code", "path", "inside", "outside"),
    LIMITS,
    ids=[f"{code}@{'.'.join(map(str, path))}={inside}" for code, path, inside, _ in LIMITS],
)
def test_a_limit_is_where_it_is_said_to_be(code: str, path: Path, inside: Any, outside: Any) -> None:
    within, beyond = (changed(an_account(), value, *path) for value in (inside, outside))
    assert code not in codes(within)
    assert code in codes(beyond)


@pytest.mark.parametrize(("first", "second", "rises"), [("1", "1", True), ("1", "0.9", False)])
def test_two_readings_are_compared(first: str, second: str, rises: bool) -> None:
    early, late = "2022-01-01T00:00:00+01:00", "2022-02-01T00:00:00+01:00"
    for readings in ([(first, early), (second, late)], [(second, late), (first, early)]):
        listed = [{"value": value, "read_at": at} for value, at in readings]
        account = changed(an_account(), listed, *READINGS)
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
    assert bool(codes(account) & {rule.code for rule in PLAUSIBILITY}) is not is_plausible


def test_registers_are_counted_of_meters_for_one_direction_that_still_count() -> None:
    two = changed(an_account(), "ZWEITARIF", *METER, "registeranzahl")
    assert "implausible_register_count" in codes(two)
    both_ways = changed(two, "ZWEIRICHTUNGSZAEHLER", *METER, "energierichtung")
    ended = changed(two, "2024-01-01T00:00:00Z", *REGISTER, "active_to")
    none = changed(two, [], *METER, "registers")
    register = value_at(two, REGISTER)
    both_rates = changed(two, [register, register], *METER, "registers")
    assert "implausible_register_count" in codes(changed(both_rates, [register] * 3, *METER, "registers"))
    for account in (both_ways, ended, none, both_rates):
        assert "implausible_register_count" not in codes(account)
