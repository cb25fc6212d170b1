"""Write a synthetic German book: seeded, about 10 KB an account, every field of the specification.

`account.json` is an account of the book. All other accounts differ in names, addresses, identifiers and amounts. Some
accounts have a deliberate error, of alternating kinds; `BookEntry` has the code with which the service must refuse
them.

No person or bank in the book is real. The German regulator reserves the telephone numbers for films. Bank codes begin
with 9, which no clearing area has. The domain of the e-mail addresses receives no mail.
"""

import random
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

NO_ERRORS = Fraction(0)

_SAMPLE = Path(__file__).with_name("account.json").read_bytes()
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
"""Postcode, city, and the first digits of the city's thousand telephone numbers for films."""
_MOBILES = ("+4917139200", "+49176040690")
"""First digits of the mobile numbers for films, each with a hundred numbers."""
_BANKS = ("90010101", "92020202", "95550505", "99030303")


class BookEntry(msgspec.Struct, frozen=True):
    """An account of the book: number, JSON, and the code of its deliberate error or None."""

    external_account_number: str
    body: bytes
    expected_code: str | None


def book(supplier: str, count: int, *, seed: int = 1, errors: Fraction = NO_ERRORS) -> Iterator[BookEntry]:
    """Yield `count` accounts, the same for the same seed. `errors` is the share of accounts with an error."""
    for number in range(1, count + 1):
        account = one_account(supplier, number, seed=seed)
        code = None
        wrong_accounts = int(number * errors)
        if wrong_accounts > int((number - 1) * errors):
            code, break_rule = ERRORS[wrong_accounts % len(ERRORS)]
            break_rule(account)
        yield BookEntry(account["external_account_number"], msgspec.json.encode(account), code)


def one_account(supplier: str, number: int, *, seed: int = 1) -> dict[str, Any]:
    """Return the account with this number, as an importer would send it."""
    rng = random.Random(f"{seed}/{supplier}/{number}")
    account: dict[str, Any] = msgspec.json.decode(_SAMPLE)
    external = f"{supplier[:2].upper()}-{seed:02d}{number:07d}"
    account |= {"external_account_number": external, "import_supplier": supplier}
    postcode, city, landline = rng.choice(_CITIES)
    street, given, family = rng.choice(_STREETS), rng.choice(_GIVEN), rng.choice(_FAMILY)
    points = [_market_location(rng) for _ in range(2)]
    _set_finances(account, rng, external, points)
    account["customers"][0] |= {
        "given_name": given,
        "family_name": family,
        "email": f"kunde{number}@example.com",
        "mobile": f"{rng.choice(_MOBILES)}{rng.randrange(100):02d}",
        "landline": f"{landline}{rng.randrange(1000):03d}",
        "date_of_birth": (date(1950, 1, 1) + timedelta(days=rng.randrange(18_000))).isoformat(),
        "title": rng.choice(("Frau", "Herr", "")),
    }
    account |= {"billing_address1": street, "billing_address2": str(rng.randrange(1, 200))}
    account |= {"billing_address4": city, "billing_postcode": postcode}
    (address,) = account["supply_addresses"]
    address |= {"supply_address1": street, "supply_address2": f"{rng.randrange(1, 200)}a"}
    address |= {"supply_address4": city, "supply_postcode": postcode}
    for point, identifier, maker in zip(address["supply_points"], points, ("1EBZ", "1GAS"), strict=True):
        _set_supply_point(point, rng, identifier, maker)
    account["references"][0]["value"] = f"{supplier}/{external}"
    account["statements"][0] |= {
        "statement_path": f"statements/2022/{external}.pdf",
        "statement_id": f"{external}/2022",
        "annual_consumption": rng.randrange(1_000, 6_000),
    }
    instruction = account["payment_instructions"][0]
    instruction |= {"reference": f"MANDATE/{external}", "bank_account": _bank_account(rng, f"{given} {family}")}
    account["payment_schedules"][0] |= {
        "amount": rng.randrange(4_000, 20_000) / 100,
        "day_of_month": rng.randrange(1, 29),
    }
    account["metadata"][0]["value"] = {"segment": rng.choice("ABC"), "score": rng.randrange(100)}
    return account


def _set_finances(account: dict[str, Any], rng: random.Random, external: str, points: list[str]) -> None:
    """Fill in the ledger and `transfer_balance`: balance = last closing balance + transactions since then."""
    closing = Decimal(rng.randrange(-20_000, 20_000)) / 100
    payment, credit, repayment = (Decimal(rng.randrange(500, 12_000)) / 100 for _ in range(3))
    balance = str(closing + payment + credit - repayment)
    account["transfer_balance"] = balance
    (ledger,) = account["ledgers"]
    ledger |= {"identifiers": points, "last_statement_balance": str(closing), "ledger_balance": balance}
    amounts = (payment, credit, repayment)
    for number, (transaction, amount) in enumerate(zip(ledger["current_statement_transactions"], amounts, strict=True)):
        transaction |= {"transaction_id": f"{external}/{number + 1}", "amount": str(amount)}


def _set_supply_point(point: dict[str, Any], rng: random.Random, identifier: str, maker: str) -> None:
    """Set the identifiers, readings and consumption of a supply point."""
    point["identifier"] = identifier
    (melo,) = point["melos"]
    (meter,) = melo["meters"]
    meter["meter_number"] = f"{maker}{rng.randrange(10**9, 10**10)}"
    value = Decimal(rng.randrange(100_000, 600_000)) / 10
    for index, reading in enumerate(meter["registers"][0]["readings"]):
        reading["value"] = str(value + 1_234 * index)
        reading["edifact_reference_number"] = f"EDI{rng.randrange(10**7, 10**8)}"
    if profiles := point.get("electricity_supply_point_load_profiles"):
        profiles[0]["slp_jvp_kwh"] = str(rng.randrange(1_000, 6_000))
        melo["electricity_meter_gateways"][0]["number"] = f"EPPC{rng.randrange(10**9, 10**10)}"
    else:
        point["gas_supply_point_load_profiles"][0]["jahresmenge_kwh"] = str(rng.randrange(5_000, 30_000))
    melo["melo_number"] = f"DE{rng.randrange(10**31):031d}"
    point["agreements"][0]["params"]["annual_consumption"] = str(rng.randrange(1_000, 30_000))


def _market_location(rng: random.Random) -> str:
    digits = [*map(int, str(rng.randrange(4 * 10**9, 10**10)))]
    check = (10 - (sum(digits[0::2]) + 2 * sum(digits[1::2])) % 10) % 10
    return "".join(map(str, (*digits, check)))


def _bank_account(rng: random.Random, holder: str) -> dict[str, str]:
    number = f"{rng.randrange(10**10):010d}"
    bban = rng.choice(_BANKS) + number
    check = 98 - int(bban + "131400") % 97
    return {"account_holder": holder, "account_number": number, "iban": f"DE{check:02d}{bban}"}


def _set(value: Any, *path: str | int) -> Callable[[dict[str, Any]], None]:
    def break_rule(account: dict[str, Any]) -> None:
        parent: Any = account
        for step in path[:-1]:
            parent = parent[step]
        parent[path[-1]] = value

    return break_rule


def _repeated(field: str) -> Callable[[dict[str, Any]], None]:
    def break_rule(account: dict[str, Any]) -> None:
        account[field] *= 2

    return break_rule


_POINT = ("supply_addresses", 0, "supply_points", 0)
_IBAN = ("payment_instructions", 0, "bank_account", "iban")

ERRORS: tuple[tuple[str, Callable[[dict[str, Any]], None]], ...] = (
    ("invalid_phone_number", _set("+49 12", "customers", 0, "mobile")),
    ("invalid_iban", _set("DE00900101010532013000", *_IBAN)),
    ("required", lambda account: account["customers"][0]["consents"][0].pop("value")),
    ("invalid_choice", _set("WATER", *_POINT, "supply_type")),
    ("unknown_field", _set("oops", "billing_adress1")),
    ("ledger_balances_not_equal_to_transfer_balance", _set("999999.99", "transfer_balance")),
    ("children_with_duplicate_values", _repeated("references")),
    ("start_date_later_than_end_date", _set("2021-12-31", *_POINT, "supply_end_date")),
    ("invalid", _set("kunde@", "customers", 0, "email")),
    ("blank", _set(" ", *_POINT, "agreements", 0, "product_code")),
    ("zero_payment_schedule_amount", _set(0, "payment_schedules", 0, "amount")),
    ("metadata_has_duplicate_keys", _repeated("metadata")),
)
"""Pairs (code, function that changes an account so that the service refuses it with this code)."""
