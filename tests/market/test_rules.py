"""Every rule has an account that keeps it and one that breaks it, and stands where its path says."""

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

import market
from market import RULES, Rule, Severity
from market.plausibility import PLAUSIBILITY
from schemas.submission import read_submission
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


READING = (*REGISTER, "readings", 0)
AGREEMENT = (*AGREEMENTS, 0)
FACTOR = (*GAS, "melos", 0, "conversion_factors", 0)
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
    ("start_date_later_than_end_date", "non_field_errors", (*POINT, "supply_end_date"), "1999-01-01"),
    ("start_date_later_than_end_date", "non_field_errors", (*AGREEMENTS, 0, "effective_to"), "1999-01-01"),
    ("invalid_metering_location_id", "", (*MELO, "melo_number"), "DE1"),
    ("start_date_later_than_end_date", "non_field_errors", (*METER, "active_to"), "1999-01-01T00:00:00Z"),
    ("invalid_obis_code", "", (*REGISTER, "obis_code"), "one"),
    ("start_date_later_than_end_date", "non_field_errors", (*REGISTER, "active_to"), "1999-01-01T00:00:00Z"),
    (
        "start_date_later_than_end_date",
        "non_field_errors",
        (*MELO, "electricity_meter_gateways", 0, "valid_to"),
        "1999-01-01T00:00:00Z",
    ),
    (
        "start_date_later_than_end_date",
        "non_field_errors",
        (*MELO, "conversion_factors", 0, "active_to_date"),
        "1999-01-01",
    ),
    ("invalid_market_partner_code", "", (*POINT, "previous_supplier_id"), "9900123456789"),
    (
        "start_date_later_than_end_date",
        "non_field_errors",
        (*POINT, "balancing_periods", 0, "valid_to"),
        "1999-01-01T00:00:00Z",
    ),
    (
        "start_date_later_than_end_date",
        "non_field_errors",
        (*POINT, "balancing_periods", 0, "balancing_period_time_slices", 0, "valid_to"),
        "1999-01-01",
    ),
    (
        "start_date_later_than_end_date",
        "non_field_errors",
        (*GAS, "articles", 0, "period_end_at"),
        "1999-01-01T00:00:00Z",
    ),
    (
        "start_date_later_than_end_date",
        "non_field_errors",
        (*GAS, "gas_supply_point_load_profiles", 0, "valid_to"),
        "1999-01-01T00:00:00Z",
    ),
    ("invalid_energy_identification_code", "", (*GAS, "gas_supply_point_load_profiles", 0, "marktgebiet"), "THE"),
    (
        "start_date_later_than_end_date",
        "non_field_errors",
        (*POINT, "electricity_supply_point_load_profiles", 0, "valid_to"),
        "1999-01-01T00:00:00Z",
    ),
    ("ledger_balances_not_equal_to_transfer_balance", "non_field_errors", ("transfer_balance",), "999999.99"),
    ("start_date_later_than_end_date", "non_field_errors", ("statements", 0, "bill_period_to_date"), "1999-01-01"),
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
]
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


BREACHES += [
    (told_at(field, path), code, changed(an_account(), value, *path))
    for code, field, path, value in [*BROKEN, *IMPLAUSIBLE]
]


@pytest.mark.promise("implausible-least-warning-births")
def test_what_is_implausible_is_a_warning() -> None:
    assert {rule.severity for rule in PLAUSIBILITY} == {Severity.WARNING}


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


def without_indexes(attr: str) -> str:
    return ".".join("[]" if step.isdigit() else step for step in attr.split(".")).replace(".[]", "[]")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.code}@{rule.at}")
def test_every_rule_has_an_example_that_breaks_it(rule: Rule) -> None:
    places = {without_indexes(attr) for attr, code, _ in BREACHES if code == rule.code}
    wanted = {rule.at, without_indexes(f"{rule.at}.{rule.field}".lstrip("."))}
    assert places & wanted, f"no example for {rule.code} at {rule.at or 'the account'}"


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
