"""Masking of personal data on pages. Pure.

Two persons have different masked values, which do not identify them. In a payload, every field is masked unless it is
listed as harmless, so an unknown field never shows a person. Inside unknown fields, and inside fields that accept any
JSON, the names of members are masked, too.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

DOTS = "•••"
_NAMES = """
active_from active_from_date active_to active_to_date adjustment_percent adjustment_type agreed_at amount
annual_consumption annual_nighttime_usage article_id article_type balancing_group bill_period_from_date
bill_period_to_date calorific_value cancelled code communication_method condition_value
custom_price custom_price_quantity custom_price_quantity_unit customer_at_supply_address_from_date day_of_month
decimal_places digits effective_from effective_to energierichtung factor fernschaltung frequency import_supplier
is_dry_run is_pinned is_relevant_for_billing is_transfer_reading last_billed_to_date last_statement_balance
last_statement_closing_date ledger_balance ledger_code means messwerterfassung meter_sub_type meter_type
monthly_standing_charge municipal_rebate_percent net_monthly_standing_charge net_night_unit_rate_per_kwh
net_unit_rate_per_kwh night_unit_rate_per_kwh number_of_individual_assets obis_code origin payment_type
period_end_at period_start_at previous_supplier_id price_per_individual_asset_per_day product_code qualifier
quantity quantity_in read_at registeranzahl sales_channel sales_subchannel schedule_window_end schedule_window_start
scheme_name signed_at slug start_date status supply_end_date supply_start_date supply_start_type supply_type
time_of_use_definition time_of_use_register total_estimated_annual_bill_in_euros transaction_date transfer_balance
type type_of_read unit_rate_per_kwh unknown_occupier valid_from valid_to vendor
"""
_PLATFORM_NAMES = """
amount_adjustment amount_discount amount_due amount_net amount_paid_in_advance amount_total balancing_period_start_at
cancelled_at created_at due_at erased_at estimate_method estimate_reason invoice_document_type invoice_sub_type
invoice_type issued_at last_validation_at measurement_classifications melo_ordinal meter_ordinal ordinal
plausibility_indications position price product_identifier product_identifier_type quantity_unit recorded_at
reference_invoice_issued_at register_ordinal service_conducted_at sign_up_reward_amount sign_up_reward_scheme_name
supply_address_ordinal supply_period_end_at supply_point_ordinal tax_amount tax_amount_assessment_basis
tax_amount_paid_in_advance tax_rate tax_rate_type
"""
HARMLESS = frozenset((_NAMES + _PLATFORM_NAMES).split())
"""Fields and columns of the platform whose values do not describe a person: codes, days, kinds, quantities, prices."""
_OBJECT_NAMES = """
account_campaigns agreements amounts article_prices articles balancing_period_time_slices balancing_periods
bank_account consents contact_details conversion_factors current_statement_transactions customers delivery_note
electricity_meter_gateways electricity_supply_point_load_profiles energy_amount gas_supply_point_load_profiles
interval_zone ledgers line_items market_participant_invoice melos metadata meter_operators meters network_operators
notes params payload payment_instructions payment_schedules price_sheets readings recipient_address references
registers sender_address sign_up_reward smgw_configurations statements supply_addresses supply_points task_params
tax_amounts transmission_system_operators
"""
_OBJECTS = frozenset(_OBJECT_NAMES.split())
"""Documented objects and lists of objects. The importer chooses the content of any other field."""
_CLOSED = frozenset({"metadata", "notes", "references"})
"""Documented lists whose values are free text."""
_VALUES = {"value": ("readings",)}
"""Names of fields that stay unmasked only as direct members of the objects named here."""
_MOST_DIGITS = 4
"""Most digits of an index in a path. A name with more digits may be a telephone number."""


def mask_name(name: str | None) -> str:
    """Mask a name: `Anna Müller` becomes `A••• M•••`."""
    return " ".join(f"{word[0]}{DOTS}" for word in (name or "").split())


def mask_email(email: str | None) -> str:
    """Mask an e-mail address: `anna@example.org` becomes `a•••@e•••.org`."""
    if not email:
        return ""
    local, _, domain = email.rpartition("@")
    host, _, top = domain.rpartition(".")
    return f"{local[:1]}{DOTS}@{host[:1]}{DOTS}.{top}" if local and host else DOTS


def mask_phone(number: str | None) -> str:
    """Mask a telephone number: `+49 170 1234567` becomes `••• 67`."""
    digits = re.sub(r"\D", "", number or "")
    return "" if not number else f"{DOTS} {digits[-2:]}" if len(digits) > 4 else DOTS


def mask_iban(iban: str | None) -> str:
    """Mask an IBAN: `DE02 1203 0000 0000 2020 51` becomes `DE•• ••• 51`."""
    plain = re.sub(r"\s", "", iban or "")
    return "" if not plain else f"{plain[:2].upper()}•• {DOTS} {plain[-2:]}" if len(plain) > 8 else DOTS


def mask_postcode(postcode: str | None) -> str:
    """Mask a postcode: `10115` becomes `10•••`."""
    return f"{postcode.strip()[:2]}{DOTS}" if postcode and postcode.strip() else ""


def mask_date(day: object) -> str:
    """Mask a date: `1980-05-17` becomes `1980-••-••`."""
    text = str(day) if day else ""
    return f"{text[:4]}-••-••" if re.match(r"[0-9]{4}-", text) else DOTS if text else ""


def mask_text(text: object) -> str:
    """Mask a text: `Berlin` becomes `B•••`. A text of up to three characters is masked completely."""
    plain = "" if text is None else str(text).strip()
    return f"{plain[:1]}{DOTS}" if len(plain) > 3 else DOTS if plain else ""


_BY_NAME: Mapping[str, Any] = {
    "email": mask_email,
    "mobile": mask_phone,
    "landline": mask_phone,
    "iban": mask_iban,
    "given_name": mask_name,
    "family_name": mask_name,
    "account_holder": mask_name,
    "date_of_birth": mask_date,
    "billing_postcode": mask_postcode,
    "supply_postcode": mask_postcode,
}


def masked_tree(value: Any, unmasked: Collection[str] = (), *, path: tuple[str, ...] = ()) -> Any:
    """Return a payload, as dicts, lists and scalars, with every value masked that may describe a person.

    `unmasked` are dotted paths, with indexes, that stay unmasked with everything inside them. `path` is the path of the
    value in its payload.
    """
    if ".".join(path) in unmasked:
        return value
    if isinstance(value, Mapping):
        is_free = not _is_documented(path)  # the number distinguishes members whose names begin alike
        return {
            f"{mask_text(name)} ({number})" if is_free else name: masked_tree(below, unmasked, path=(*path, str(name)))
            for number, (name, below) in enumerate(value.items(), 1)
        }
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [masked_tree(below, unmasked, path=(*path, str(index))) for index, below in enumerate(value)]
    if value is None or is_harmless(path) or (isinstance(value, bool) and _is_documented(path[:-1])):
        return value
    return masked_leaf(path, value)


def masked_path(path: Sequence[str]) -> tuple[str, ...]:
    """Mask the names in a path that are not documented."""
    return tuple(
        step if _is_documented(path[:index]) or _is_index(step) else mask_text(step) for index, step in enumerate(path)
    )


def _is_documented(path: Sequence[str]) -> bool:
    """Return True if an object at this path has only documented members."""
    return all(step in _OBJECTS or _is_index(step) for step in path)


def _is_index(step: str) -> bool:
    return step.isdigit() and len(step) <= _MOST_DIGITS


def is_harmless(path: Sequence[str]) -> bool:
    """Return True if no value at this path describes a person."""
    names = [step for step in path if not step.isdigit()]
    if not names or not _is_documented(path[:-1]) or _CLOSED.intersection(names):
        return False
    parents = _VALUES.get(names[-1])
    return names[-1] in HARMLESS if parents is None else len(names) > 1 and names[-2] in parents


def masked_leaf(path: Sequence[str], value: Any) -> str:
    """Return the masked form of a value at this path; the value is no object and no array."""
    name = next((step for step in reversed(path) if not step.isdigit()), "")
    return str(_BY_NAME.get(name, mask_text)(value if value is None else str(value)))
