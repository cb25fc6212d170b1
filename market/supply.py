"""Rules over supply addresses, supply points, metering and balancing."""

from collections.abc import Sequence
from functools import partial

from market.identifiers import (
    is_energy_identification_code,
    is_market_location_id,
    is_market_partner_code,
    is_metering_location_id,
    is_obis_code,
    is_postcode,
)
from market.periods import follow_each_other, ordered
from market.rule import Rule, error, reading, warning
from market.uniqueness import all_different, unique_by
from schemas.supply import SupplyAddress, SupplyPoint

_CONTRACT = "public contract of sister systems, supply address object"
_error = partial(error, source=_CONTRACT)
_IDENTIFIERS = "BDEW, Identifikatoren in der Marktkommunikation 1.2, 2025-02-07"
_POINT = "supply_addresses[].supply_points[]"
_MELO = f"{_POINT}.melos[]"
_METER = f"{_MELO}.meters[]"


@reading("[].supply_points[].identifier")
def _on_one_address(addresses: Sequence[SupplyAddress]) -> bool:
    """Return True if no supply point is on two addresses.

    Another rule reports supply points that occur twice on one address.
    """
    return all_different(
        identifier for address in addresses for identifier in {point.identifier for point in address.supply_points}
    )


@reading("agreements[].effective_from", "agreements[].effective_to", "supply_start_date")
def _agreements_follow_each_other(point: SupplyPoint) -> bool:
    return follow_each_other(point.agreements, gaps_until=point.supply_start_date)


def _ordered(at: str, start: str, end: str, noun: str, nomen: str) -> Rule:
    return _error(
        "start_date_later_than_end_date",
        at,
        ordered(start, end),
        f"{noun}: the end must not be before the start.",
        f"{nomen}: Das Ende darf nicht vor dem Beginn liegen.",
    )


def _eic(at: str) -> Rule:
    return warning(
        "invalid_energy_identification_code",
        at,
        is_energy_identification_code,
        "An energy identification code must have 16 characters and end in its check character.",
        "Ein Energy Identification Code (EIC) muss 16 Zeichen haben und mit seinem Prüfzeichen enden.",
        source="ENTSO-E, EIC Reference Manual 5.5; " + _IDENTIFIERS,
    )


def _partner(at: str) -> Rule:
    return warning(
        "invalid_market_partner_code",
        at,
        is_market_partner_code,
        "A market partner code must have 13 digits and end in its check digit.",
        "Eine Marktpartner-ID muss 13 Ziffern haben und mit ihrer Prüfziffer enden.",
        source=_IDENTIFIERS,
    )


SUPPLY: tuple[Rule, ...] = (
    _error(
        "duplicate_supply_addresses_found",
        "supply_addresses",
        unique_by("supply_address1", "supply_address2", "supply_address3", "supply_address4", "supply_postcode"),
        "A supply address must not be given twice.",
        "Eine Lieferstelle darf nicht zweimal angegeben sein.",
    ),
    _error(
        "duplicate_meter_points_on_different_supply_addresses_provided",
        "supply_addresses",
        _on_one_address,
        "A supply point must not belong to two supply addresses.",
        "Eine Marktlokation darf nicht zu zwei Lieferstellen gehören.",
    ),
    _error(
        "duplicate_meter_points_provided",
        "supply_addresses[].supply_points",
        unique_by("identifier"),
        "A supply point must not be given twice.",
        "Eine Marktlokation darf nicht zweimal angegeben sein.",
    ),
    warning(
        "invalid_postcode",
        "supply_addresses[].supply_postcode",
        is_postcode,
        "A German postcode must have five digits.",
        "Eine deutsche Postleitzahl muss fünf Ziffern haben.",
        source="Deutsche Post, Leitfaden zur Postleitzahl",
    ),
    warning(
        "invalid_supply_point_identifier",
        f"{_POINT}.identifier",
        is_market_location_id,
        "A market location id must have 11 digits, must not start with 0, and must end in its check digit.",
        "Eine MaLo-ID muss 11 Ziffern haben, darf nicht mit 0 beginnen und muss mit ihrer Prüfziffer enden.",
        source=_IDENTIFIERS,
    ),
    _ordered(_POINT, "supply_start_date", "supply_end_date", "Supply", "Belieferung"),
    _error(
        "gaps_or_overlaps_in_agreement_dates",
        _POINT,
        _agreements_follow_each_other,
        "The agreements of a supply point must not overlap, and must not leave a gap after the start of the supply.",
        "Verträge einer Marktlokation dürfen sich nicht überschneiden und nach dem Lieferbeginn keine Lücke lassen.",
        field="agreements.non_field_errors",
    ),
    _ordered(f"{_POINT}.agreements[]", "effective_from", "effective_to", "Agreement", "Vertrag"),
    warning(
        "invalid_metering_location_id",
        f"{_MELO}.melo_number",
        is_metering_location_id,
        "A metering location id must have 33 characters: DE, 11 digits, then 20 capital letters or digits.",
        "Eine MeLo-ID muss 33 Zeichen haben: DE, 11 Ziffern, dann 20 Großbuchstaben oder Ziffern.",
        source=_IDENTIFIERS,
    ),
    _ordered(_METER, "active_from", "active_to", "Meter", "Zähler"),
    _error(
        "meter_with_duplicate_register_ids",
        f"{_METER}.registers",
        unique_by("obis_code", "active_from"),
        "A meter must not have two registers with the same OBIS code and start.",
        "Ein Zähler darf nicht zwei Zählwerke mit derselben OBIS-Kennzahl und demselben Beginn haben.",
    ),
    warning(
        "invalid_obis_code",
        f"{_METER}.registers[].obis_code",
        is_obis_code,
        "An OBIS code must have the form A-B:C.D.E with groups from 0 to 255.",
        "Eine OBIS-Kennzahl muss die Form A-B:C.D.E mit Gruppen von 0 bis 255 haben.",
        source="EDI@Energy, Codeliste der OBIS-Kennzahlen und Medien 2.5c",
    ),
    _ordered(f"{_METER}.registers[]", "active_from", "active_to", "Register", "Zählwerk"),
    _ordered(
        f"{_MELO}.electricity_meter_gateways[]", "valid_from", "valid_to", "Smart meter gateway", "Smart-Meter-Gateway"
    ),
    _ordered(
        f"{_MELO}.conversion_factors[]", "active_from_date", "active_to_date", "Conversion factor", "Umrechnungsfaktor"
    ),
    _partner(f"{_POINT}.previous_supplier_id"),
    *(
        rule
        for kind, noun, nomen in (
            ("meter_operators", "Metering point operator", "Messstellenbetreiber"),
            ("network_operators", "Grid operator", "Netzbetreiber"),
            ("transmission_system_operators", "Transmission system operator", "Übertragungsnetzbetreiber"),
        )
        for rule in (
            _ordered(f"{_POINT}.{kind}[]", "valid_from", "valid_to", noun, nomen),
            _partner(f"{_POINT}.{kind}[].code"),
        )
    ),
    _ordered(f"{_POINT}.balancing_periods[]", "valid_from", "valid_to", "Balancing period", "Bilanzierungszeitraum"),
    _ordered(
        f"{_POINT}.balancing_periods[].balancing_period_time_slices[]",
        "valid_from",
        "valid_to",
        "Balancing time slice",
        "Zeitscheibe der Bilanzierung",
    ),
    _ordered(f"{_POINT}.articles[]", "period_start_at", "period_end_at", "Article", "Artikel"),
    _ordered(
        f"{_POINT}.gas_supply_point_load_profiles[]", "valid_from", "valid_to", "Gas load profile", "Lastprofil Gas"
    ),
    _eic(f"{_POINT}.gas_supply_point_load_profiles[].marktgebiet"),
    _ordered(
        f"{_POINT}.electricity_supply_point_load_profiles[]",
        "valid_from",
        "valid_to",
        "Electricity load profile",
        "Lastprofil Strom",
    ),
    *(
        _eic(f"{_POINT}.electricity_supply_point_load_profiles[].{field}")
        for field in ("bilanzierungsgebiet", "regelzone", "bilanzkreis")
    ),
)
