"""A German book of accounts to try the service with: seeded, about 10 KB each, every field of the specification.

Some accounts carry a deliberate error, of many kinds in turn, and say which code they should be refused with.

Nobody is in it. Telephone numbers are those that the German regulator keeps free for films, bank codes begin with 9,
which no clearing area has, and e-mail addresses are of a domain that takes no mail.
"""

import random
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec

NO_ERRORS = Fraction(0)

_GIVEN = ("Anna", "Ben", "Clara", "David", "Emma", "Finn", "Greta", "Hannes", "Ida", "Jonas", "Käthe", "Lukas")
_FAMILY = ("Groß", "Schmidt", "Müller", "Yılmaz", "Weiß", "Fischer", "Krüger", "Öztürk", "Nowak", "Lehmann", "Böhm")
_STREETS = ("Lindenallee", "Am Markt", "Schillerstraße", "Bahnhofstraße", "Ringweg", "Försterei", "Gartenstraße")
_CITIES = (
    ("10115", "Berlin", "+49 30 23125"),
    ("20095", "Hamburg", "+49 40 66969"),
    ("50667", "Köln", "+49 221 4710"),
    ("60311", "Frankfurt am Main", "+49 69 90009"),
    ("80331", "München", "+49 89 99998"),
)
"""Postcode, city, and the beginning of the thousand numbers there that are kept free for films."""
_MOBILES = ("+4917139200", "+49176040690")
"""The same for mobile numbers, a hundred each."""
_BANKS = ("90010101", "92020202", "95550505", "99030303")


class BookEntry(msgspec.Struct, frozen=True):
    """One account of the book: its number, its JSON, and the code that it should be refused with, if any."""

    external_account_number: str
    body: bytes
    expected_code: str | None


def book(supplier: str, count: int, *, seed: int = 1, errors: Fraction = NO_ERRORS) -> Iterator[BookEntry]:
    """So many accounts, the same for the same seed; `errors` is the share of those that are to be refused."""
    for number in range(1, count + 1):
        account = one_account(supplier, number, seed=seed)
        code = None
        spoilt = int(number * errors)
        if spoilt > int((number - 1) * errors):
            code, spoil = ERRORS[spoilt % len(ERRORS)]
            spoil(account)
        yield BookEntry(account["external_account_number"], msgspec.json.encode(account), code)


def one_account(  # long: it is an account written out, field by field
    supplier: str, number: int, *, seed: int = 1
) -> dict[str, Any]:
    """The account with this number, as an importer would send it."""
    chance = random.Random(f"{seed}/{supplier}/{number}")
    external = f"{supplier[:2].upper()}-{seed:02d}{number:07d}"
    postcode, city, landline = chance.choice(_CITIES)
    street = chance.choice(_STREETS)
    given, family = chance.choice(_GIVEN), chance.choice(_FAMILY)
    power, gas = _market_location(chance), _market_location(chance)
    signed = "2021-08-24T14:00:00+02:00"
    closing = Decimal(chance.randrange(-20_000, 20_000)) / 100
    payment, credit, repayment = (Decimal(chance.randrange(500, 12_000)) / 100 for _ in range(3))
    balance = closing + payment + credit - repayment
    return {
        "external_account_number": external,
        "import_supplier": supplier,
        "unknown_occupier": False,
        "customers": [
            {
                "given_name": given,
                "family_name": family,
                "email": f"kunde{number}@example.com",
                "mobile": f"{chance.choice(_MOBILES)}{chance.randrange(100):02d}",
                "landline": f"{landline}{chance.randrange(1000):03d}",
                "date_of_birth": (date(1950, 1, 1) + timedelta(days=chance.randrange(18_000))).isoformat(),
                "title": chance.choice(("Frau", "Herr", "")),
                "salutation": "Guten Tag",
                "consents": [
                    {"type": "marketing.general-emails", "value": "ACCEPTED", "signed_at": signed},
                    {
                        "type": "marketing.physical-letters",
                        "value": "REJECTED",
                        "description": "per Telefon",
                        "signed_at": signed,
                    },
                ],
            }
        ],
        "billing_address1": street,
        "billing_address2": str(chance.randrange(1, 200)),
        "billing_address3": "",
        "billing_address4": city,
        "billing_postcode": postcode,
        "sales_channel": "DIRECT",
        "sales_subchannel": "Website",
        "supply_addresses": [
            {
                "supply_address1": street,
                "supply_address2": f"{chance.randrange(1, 200)}a",
                "supply_address3": "",
                "supply_address4": city,
                "supply_postcode": postcode,
                "customer_at_supply_address_from_date": "2022-01-01",
                "supply_points": [_electricity(chance, power), _gas(chance, gas)],
            }
        ],
        "transfer_balance": str(balance),
        "references": [{"namespace": "legacy_crm", "value": f"{supplier}/{external}"}],
        "statements": [
            {
                "bill_period_from_date": "2022-01-01",
                "bill_period_to_date": "2022-12-31",
                "statement_path": f"statements/2022/{external}.pdf",
                "statement_id": f"{external}/2022",
                "supply_type": "ELECTRICITY",
                "annual_consumption": chance.randrange(1_000, 6_000),
            }
        ],
        "ledgers": [
            {
                "identifiers": [power, gas],
                "ledger_code": "ENERGY",
                "last_statement_closing_date": "2022-12-31",
                "last_statement_balance": str(closing),
                "ledger_balance": str(balance),
                "current_statement_transactions": [
                    {
                        "transaction_id": f"{external}/1",
                        "transaction_date": "2023-01-15",
                        "amount": str(payment),
                        "type": "PAYMENT",
                        "reason": "ACCOUNT_CHARGE_PAYMENT",
                        "payment_type": "DD_FIRST_COLLECTION",
                    },
                    {
                        "transaction_id": f"{external}/2",
                        "transaction_date": "2023-02-01",
                        "amount": str(credit),
                        "type": "CREDIT",
                        "reason": "CUSTOMER_SERVICE_GESTURE",
                    },
                    {
                        "transaction_id": f"{external}/3",
                        "transaction_date": "2023-03-01",
                        "amount": str(repayment),
                        "type": "REPAYMENT",
                        "reason": "PARTIAL_CREDIT_REFUND",
                        "payment_type": "DIRECT_CREDIT",
                    },
                ],
            }
        ],
        "payment_instructions": [
            {
                "vendor": "SEPA",
                "reference": f"MANDATE/{external}",
                "type": "DIRECT_DEBIT",
                "ledger_code": "ENERGY",
                "valid_from": "2022-01-01",
                "bank_account": _bank_account(chance, f"{given} {family}"),
            }
        ],
        "payment_schedules": [
            {
                "amount": chance.randrange(4_000, 20_000) / 100,
                "ledger_code": "ENERGY",
                "day_of_month": chance.randrange(1, 29),
                "frequency": "MONTHLY",
                "means": "DD",
                "start_date": "2023-04-01",
            }
        ],
        "account_campaigns": [{"slug": "welcome-2022", "campaign_note": "from the old system"}],
        "metadata": [{"key": "legacy", "value": {"segment": chance.choice("ABC"), "score": chance.randrange(100)}}],
        "notes": [
            {"created_at": "2022-11-05T08:30:00+01:00", "body": "Kunde wünscht Rechnung per E-Mail.", "is_pinned": True}
        ],
    }


def _electricity(  # long: it is a supply point written out, field by field
    chance: random.Random, identifier: str
) -> dict[str, Any]:
    since = "2022-01-01T00:00:00+01:00"
    meter = {
        "meter_number": f"1EBZ{chance.randrange(10**9, 10**10)}",
        "meter_type": "DREHSTROMZAEHLER",
        "messwerterfassung": "MANUELL_AUSGELESENE",
        "energierichtung": "EINRICHTUNGSZAEHLER",
        "fernschaltung": "NICHT_VORHANDEN",
        "registeranzahl": "EINTARIF",
        "active_from": since,
        "active_to": None,
        "registers": [
            _register(chance, "1-1:1.8.0")
            | {"smgw_configurations": [{"configuration_id": "9990001", "valid_from": "2022-01-01T00:00:00"}]}
        ],
    }
    profile = {
        "valid_from": since,
        "valid_to": None,
        "smgw_wahlrecht": False,
        "bilanzierungsgebiet": "11YHAMBURG-NETZQ",
        "regelzone": "10YDE-EON------1",
        "aggregationsverantwortung": "VNB",
        "lieferrichtung": "VERBRAUCH",
        "prognosegrundlage_werte_profile": "PROFILE",
        "prognosegrundlage_slp_tlp": "SLP",
        "slp_profilname": "H0",
        "slp_bilanzierungsverfahren": "SYNTHETISCH",
        "slp_jvp_kwh": str(chance.randrange(1_000, 6_000)),
        "tlp_profilname": "TLP1",
        "tlp_bilanzierungsverfahren": "SYNTHETISCH",
        "tlp_profilschar": "S1",
        "tlp_jvp_spezifische_arbeit_265_kwhk": "0.5",
        "tlp_jvp_angepasste_elektrische_arbeit_z08_kwh": "120",
        "tlp_klima_temperatur_typ": "TMZ",
        "tlp_klima_temperatur_kennzeichnung": "10147",
        "tlp_klima_temperatur_codeliste": "DWD",
        "tlp_klima_temperatur_codepflege": "ZEE",
        "smgw_wahlrecht_grund_ablehnung": "KEINER",
        "summenzeitreihentyp": "SLS",
        "bilanzkreis": "11XSTROMKREIS01D",
        "spannungsebene": "E06",
        "umspannung": "KEINE",
        "abwicklungsmodell": "MODELL_1",
    }
    factor = {
        "active_from_date": "2022-01-01",
        "active_to_date": "2023-12-31",
        "edifact_reference_number": "EDI1",
        "factor": "1.0",
    }
    gateway = {
        "number": f"EPPC{chance.randrange(10**9, 10**10)}",
        "communication_method": "LTE",
        "valid_from": since,
        "valid_to": None,
    }
    melo = {
        "melo_number": _metering_location(chance),
        "meters": [meter],
        "conversion_factors": [factor],
        "electricity_meter_gateways": [gateway],
    }
    return _supply_point(chance, identifier, "ELECTRICITY", melo, "11XSTROMKREIS01D") | {
        "transmission_system_operators": [{"code": "9900000000409", "valid_from": since, "valid_to": None}],
        "electricity_supply_point_load_profiles": [profile],
    }


def _gas(chance: random.Random, identifier: str) -> dict[str, Any]:
    since = "2022-01-01T00:00:00+01:00"
    meter = {
        "meter_number": f"1GAS{chance.randrange(10**9, 10**10)}",
        "meter_type": "BALGENGASZAEHLER",
        "meter_sub_type": "G4",
        "messwerterfassung": "MANUELL_AUSGELESENE",
        "active_from": since,
        "active_to": None,
        "registers": [_register(chance, "7-20:3.0.0")],
    }
    factor = {
        "active_from_date": "2022-01-01",
        "active_to_date": "2023-12-31",
        "edifact_reference_number": "EDI1",
        "calorific_value": "11.214",
        "condition_value": "0.9553",
    }
    profile = {
        "valid_from": since,
        "valid_to": None,
        "tum_kundenwert": "81.23",
        "jahresmenge_kwh": str(chance.randrange(5_000, 30_000)),
        "marktgebiet": "37Y701125MH0000I",
        "profilname": "DE_HEF04",
        "bilanzierungsverfahren": "SLP_SYNTHETISCH",
        "druckebene": "ND",
        "gas_quality": "H_GAS",
        "prognosegrundlage": "PROFILE",
        "fallgruppenzuordnung": "GABi-RLMmT",
        "netznutzungsvertrag_type": "LIEFERANTEN_NB",
        "netznutzungszahlung": "LIEFERANT",
        "netznutzungsabrechnungsvariante": "ARBEITSPREIS_GRUNDPREIS",
        "tagesparameter_type": "TEMPERATUR",
        "tagesparameter_location": "10147",
        "tagesparameter_provider": "DWD",
        "bilanzkreis": "THE0BFH000000000",
    }
    article = {
        "article_id": "2-01-7-001",
        "article_type": "ARTIKEL_ID",
        "period_start_at": since,
        "period_end_at": "2022-12-31T23:59:59+01:00",
        "quantity": "12.5",
        "municipal_rebate_percent": "10.0",
        "adjustment_type": "Z01",
        "adjustment_percent": "2.5",
        "number_of_individual_assets": "3",
        "price_per_individual_asset_per_day": "0.0125",
        "time_of_use_definition": "1",
        "time_of_use_register": "2",
        "custom_price": "1.25",
        "custom_price_quantity": "1",
        "custom_price_quantity_unit": "KWH",
    }
    melo = {"melo_number": _metering_location(chance), "meters": [meter], "conversion_factors": [factor]}
    return _supply_point(chance, identifier, "GAS", melo, "THE0BFH000000000") | {
        "articles": [article],
        "gas_supply_point_load_profiles": [profile],
    }


def _supply_point(
    chance: random.Random, identifier: str, supply_type: str, melo: dict[str, Any], balancing_group: str
) -> dict[str, Any]:
    since = "2022-01-01T00:00:00+01:00"
    agreement = {
        "effective_from": "2022-01-01",
        "effective_to": "2024-12-31",
        "agreed_at": "2021-11-30T09:15:00Z",
        "product_code": "SIMPLE-12M",
        "sign_up_reward": {"amount": "100.00", "scheme_name": "WELCOME"},
        "params": {
            "annual_consumption": str(chance.randrange(1_000, 30_000)),
            "annual_nighttime_usage": "0",
            "unit_rate_per_kwh": "0.3123",
            "net_unit_rate_per_kwh": "0.2624",
            "night_unit_rate_per_kwh": "0.2801",
            "net_night_unit_rate_per_kwh": "0.2354",
            "monthly_standing_charge": "11.90",
            "net_monthly_standing_charge": "10.00",
            "total_estimated_annual_bill_in_euros": "1210.55",
            "network_charges": {"total_network_charges_per_year": "220.10", "eeg_charge_annual": "0"},
        },
    }
    slice_ = {"valid_from": "2022-01-01", "valid_to": None, "balancing_group": balancing_group}
    return {
        "identifier": identifier,
        "agreements": [agreement],
        "supply_type": supply_type,
        "supply_start_date": "2022-01-01",
        "supply_end_date": "2024-12-31",
        "supply_start_type": "MOVE_IN",
        "melos": [melo],
        "previous_supplier_id": "9900000000102",
        "last_billed_to_date": "2022-12-31",
        "balancing_periods": [{"valid_from": since, "valid_to": None, "balancing_period_time_slices": [slice_]}],
        "meter_operators": [{"code": "9900000000201", "valid_from": since, "valid_to": None}],
        "network_operators": [{"code": "9900000000300", "valid_from": since, "valid_to": None}],
    }


def _register(chance: random.Random, obis_code: str) -> dict[str, Any]:
    value = Decimal(chance.randrange(100_000, 600_000)) / 10
    days = ("2022-01-01T00:00:00+01:00", "2022-12-31T00:00:00+01:00", "2023-06-30T00:00:00+02:00")
    origins = ("LEGACY_SYSTEM", "METER_OPERATOR", "NETWORK_OPERATOR")
    readings = [
        {
            "status": "SAVED",
            "value": str(value + 1_234 * place),
            "type_of_read": "BILLING" if place == 1 else "INTERIM",
            "origin": origin,
            "qualifier": "ESTIMATED" if place else "READ",
            "read_at": day,
            "is_transfer_reading": place == 2,
            "edifact_reference_number": f"EDI{chance.randrange(10**7, 10**8)}",
        }
        for place, (day, origin) in enumerate(zip(days, origins, strict=True))
    ]
    return {
        "obis_code": obis_code,
        "digits": 6,
        "decimal_places": 1,
        "is_relevant_for_billing": True,
        "active_from": "2022-01-01T00:00:00+01:00",
        "active_to": None,
        "readings": readings,
    }


def _market_location(chance: random.Random) -> str:
    digits = [*map(int, str(chance.randrange(4 * 10**9, 10**10)))]
    check = (10 - (sum(digits[0::2]) + 2 * sum(digits[1::2])) % 10) % 10
    return "".join(map(str, (*digits, check)))


def _metering_location(chance: random.Random) -> str:
    return f"DE{chance.randrange(10**31):031d}"


def _bank_account(chance: random.Random, holder: str) -> dict[str, str]:
    number = f"{chance.randrange(10**10):010d}"
    bban = chance.choice(_BANKS) + number
    return {
        "account_holder": holder,
        "account_number": number,
        "iban": f"DE{98 - int(bban + '131400') % 97:02d}{bban}",
    }


def _set(value: Any, *path: str | int) -> Callable[[dict[str, Any]], None]:
    def spoil(account: dict[str, Any]) -> None:
        place: Any = account
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return spoil


def _twice(field: str) -> Callable[[dict[str, Any]], None]:
    def spoil(account: dict[str, Any]) -> None:
        account[field] *= 2

    return spoil


_POINT = ("supply_addresses", 0, "supply_points", 0)
_IBAN = ("payment_instructions", 0, "bank_account", "iban")

ERRORS: tuple[tuple[str, Callable[[dict[str, Any]], None]], ...] = (
    ("invalid_phone_number", _set("+49 12", "customers", 0, "mobile")),
    ("invalid_iban", _set("DE00900101010532013000", *_IBAN)),
    ("required", lambda account: account["customers"][0]["consents"][0].pop("value")),
    ("invalid_choice", _set("WATER", *_POINT, "supply_type")),
    ("unknown_field", _set("oops", "billing_adress1")),
    ("ledger_balances_not_equal_to_transfer_balance", _set("999999.99", "transfer_balance")),
    ("children_with_duplicate_values", _twice("references")),
    ("start_date_later_than_end_date", _set("2021-12-31", *_POINT, "supply_end_date")),
    ("invalid", _set("kunde@", "customers", 0, "email")),
    ("blank", _set(" ", *_POINT, "agreements", 0, "product_code")),
    ("zero_payment_schedule_amount", _set(0, "payment_schedules", 0, "amount")),
    ("metadata_has_duplicate_keys", _twice("metadata")),
)
"""(code, how to spoil an account so that it is refused with this code)."""
