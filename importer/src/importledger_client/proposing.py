"""A proposed mapping from the names of columns, German and English, and what a mapping leaves open."""

import difflib
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import yaml

from importledger_client.contract import ACCOUNT, Field, paths
from importledger_client.mapping import LEAF, SPECIAL, Plan
from importledger_client.tables.table import Row
from importledger_client.visible import visible

REQUIRED = "This field must be given."
_CUSTOMER, _ADDRESS = "customers.", "supply_addresses."
_POINT = f"{_ADDRESS}supply_points."
_METER = f"{_POINT}melos.meters."
_BANK = "payment_instructions.bank_account."

_NAMES = {
    "external_account_number": "kundennummer kundennr kdnr vertragskonto vertragskontonummer kontonummerextern vk"
    " vertragsnummer customernumber customerno customerid accountnumber accountno accountid account",
    "import_supplier": "lieferant importsupplier supplier",
    f"{_CUSTOMER}given_name": "vorname firstname givenname",
    f"{_CUSTOMER}family_name": "nachname name familienname lastname surname familyname firma company",
    f"{_CUSTOMER}email": "email mail emailadresse emailaddress mailadresse",
    f"{_CUSTOMER}mobile": "mobil handy mobilnummer mobiltelefon handynummer mobile mobilephone cellphone",
    f"{_CUSTOMER}landline": "telefon festnetz telefonnummer tel telefonprivat phone landline telephone phonenumber",
    f"{_CUSTOMER}date_of_birth": "geburtsdatum geburtstag gebdatum dateofbirth birthdate birthday dob",
    f"{_CUSTOMER}title": "anrede titel title",
    f"{_CUSTOMER}salutation": "briefanrede grussformel salutation",
    "billing_address1": "strasse rechnungsstrasse street billingstreet streetname address address1 billingaddress1"
    " strassehausnummer strasseundhausnummer",
    "billing_address2": "hausnummer hausnr hnr housenumber housenr houseno streetnumber billingaddress2 address2",
    "billing_address3": "adresszusatz zusatz addressaddition addressline2 billingaddress3 address3",
    "billing_address4": "ort stadt wohnort rechnungsort city town billingcity billingaddress4 address4",
    "billing_postcode": "plz postleitzahl rechnungsplz postcode zip zipcode postalcode billingpostcode",
    "sales_channel": "vertriebskanal vertriebsweg saleschannel",
    "sales_subchannel": "vertriebsunterkanal salessubchannel",
    "transfer_balance": "saldo kontostand uebertragssaldo balance transferbalance",
    f"{_ADDRESS}supply_address1": "lieferstrasse lsstrasse lieferstellestrasse verbrauchsstellestrasse supplystreet"
    " supplyaddress1",
    f"{_ADDRESS}supply_address2": "lieferhausnummer lshausnummer lieferstellehausnummer supplyhousenumber"
    " supplyaddress2",
    f"{_ADDRESS}supply_address4": "lieferort lsort lieferstelleort supplycity supplyaddress4",
    f"{_ADDRESS}supply_postcode": "lieferplz lsplz lieferstelleplz supplypostcode supplyzip",
    f"{_ADDRESS}customer_at_supply_address_from_date": "einzug einzugsdatum einzugam movein moveindate",
    f"{_POINT}identifier": "malo maloid marktlokation marktlokationid marktlokationsid supplypoint supplypointid",
    f"{_POINT}supply_type": "sparte energieart medium supplytype",
    f"{_POINT}supply_start_date": "lieferbeginn belieferungsbeginn supplystart supplystartdate",
    f"{_POINT}supply_end_date": "lieferende belieferungsende supplyend supplyenddate",
    f"{_POINT}agreements.product_code": "tarif produkt produktcode tariff product productcode",
    f"{_POINT}agreements.effective_from": "vertragsbeginn tarifbeginn contractstart agreementfrom",
    f"{_POINT}agreements.effective_to": "vertragsende tarifende contractend agreementto",
    f"{_POINT}melos.melo_number": "melo meloid messlokation messlokationid melonumber zaehlpunkt",
    f"{_METER}meter_number": "zaehlernummer zaehlernr zaehler meter meternumber meterno serialnumber",
    f"{_METER}meter_type": "zaehlertyp zaehlerart metertype",
    f"{_METER}active_from": "einbaudatum zaehlereinbau installedat meteractivefrom",
    f"{_METER}registers.obis_code": "obis obiskennzahl obiscode",
    f"{_METER}registers.readings.value": "zaehlerstand ablesewert stand reading readingvalue meterreading",
    f"{_METER}registers.readings.read_at": "ablesedatum ablesungam readat readingdate",
    "ledgers.ledger_code": "kontoart ledger ledgercode",
    "ledgers.ledger_balance": "kontosaldo ledgerbalance",
    "payment_instructions.reference": "mandat mandatsreferenz mandatereference mandate sepamandat",
    f"{_BANK}account_holder": "kontoinhaber accountholder",
    f"{_BANK}iban": "iban",
    f"{_BANK}account_number": "kontonummer bankkonto bankaccount",
    "payment_schedules.amount": "abschlag abschlagsbetrag instalment installment monthlyamount",
    "payment_schedules.day_of_month": "abschlagstag zahltag dayofmonth",
}
_PATH_OF = {name: path for path, names in _NAMES.items() for name in names.split()}
_CONTRACT = dict(paths())
_GERMAN_DATE = re.compile(r"\d{1,2}\.\d{1,2}\.\d{4}\Z")
_GERMAN_NUMBER = re.compile(r"-?\d{1,3}(\.\d{3})*,\d+\Z|-?\d+,\d+\Z")
_ENGLISH_NUMBER = re.compile(r"-?\d{1,3}(,\d{3})+\.\d+\Z")


class Gap(msgspec.Struct, frozen=True):
    """A path that a mapping must fill and does not, or fills and must not."""

    name: str
    sentence: str


def path_for(column: str) -> str | None:
    """The path that a column's name speaks of."""
    folded = _folded(column)
    if folded in _PATH_OF:
        return _PATH_OF[folded]
    dotted = column.strip()
    if dotted in _CONTRACT and _CONTRACT[dotted].kind not in ("list", "object"):
        return dotted
    alike = [path for path in _CONTRACT if _folded(path) == folded or _folded(path.rsplit(".", 1)[-1]) == folded]
    return alike[0] if len(alike) == 1 and _CONTRACT[alike[0]].kind not in ("list", "object") else None


def _folded(name: str) -> str:
    lower = name.lower().replace("ä", "ae").replace("ö", "oe").replace("ü", "ue").replace("ß", "ss")
    plain = unicodedata.normalize("NFKD", lower)
    return "".join(c for c in plain if c.isalnum() and c.isascii())


def proposed(columns: list[str], rows: list[Row], source: Mapping[str, str], open_: list[str]) -> str:
    """A mapping as YAML. Comments name what is still open, beginning with these sentences."""
    account: dict[str, Any] = {}
    nowhere, taken = [], set[str]()
    for column in columns:
        path = path_for(column)
        if path is None or path in taken:
            nowhere.append(column)
        else:
            taken.add(path)
            _put(account, ACCOUNT, path.split("."), column)
    said: dict[str, Any] = {"source": dict(source)} if source else {}
    said |= {"dates": _dates(rows), "decimals": _decimals(rows), "ignore": [], "account": account}
    number = account.get("external_account_number")
    if isinstance(number, str):
        said = {"key": number, **said}
    text = yaml.safe_dump(said, sort_keys=False, allow_unicode=True, width=120)
    plan = Plan(account=account, ignore=[])
    told = [*open_, *(f"goes nowhere yet: {column}" for column in nowhere)]
    told += [f"nothing fills {gap.name}: {gap.sentence}" for gap in gaps(plan)]
    comments = [f"# {visible(sentence)}".replace("\n", "\\n") for sentence in told]
    return "\n".join(["# How the columns become accounts; `importbook map check` says what is open.", *comments, text])


def _put(account: dict[str, Any], fields: Mapping[str, Field], steps: list[str], column: str) -> None:
    name, rest = steps[0], steps[1:]
    if not rest:
        account[name] = column
        return
    field = fields[name]
    inner = account.setdefault(name, [{}] if field.kind == "list" else {})
    _put(inner[0] if field.kind == "list" else inner, field.fields, rest, column)


def _texts(rows: list[Row]) -> Iterator[str]:
    return (value.strip() for row in rows for value in row.values() if isinstance(value, str))


def _dates(rows: list[Row]) -> str:
    return "DD.MM.YYYY" if any(map(_GERMAN_DATE.match, _texts(rows))) else "YYYY-MM-DD"


def _decimals(rows: list[Row]) -> str:
    if any(map(_GERMAN_NUMBER.match, _texts(rows))):
        return "1.234,56"
    return "1,234.56" if any(map(_ENGLISH_NUMBER.match, _texts(rows))) else "1234.56"


def gaps(plan: Plan) -> list[Gap]:
    """The paths that a mapping must fill and does not, and those that accounts do not have."""
    found = list(_unknown(plan.account, ACCOUNT, ""))
    found += [Gap(path, REQUIRED) for path in _missing(plan.account, ACCOUNT, "") if path != "import_supplier"]
    account, customers = plan.account, plan.account.get("customers") or []
    is_named = any("family_name" in customer for customer in customers)
    if not is_named and (customers or "unknown_occupier" not in account):
        found.append(Gap("customers.family_name", REQUIRED))
    if "billing_address1" not in account and not account.get("supply_addresses"):
        found.append(Gap("billing_address1", "A billing address or a supply address must be given."))
    return found


def _missing(spec: Mapping[str, Any], fields: Mapping[str, Field], before: str) -> Iterator[str]:
    """The paths that an object in the mapping needs, and that nothing fills."""
    for name, field in fields.items():
        inner = spec.get(name)
        if inner is None:
            if field.is_required:
                yield before + name
        elif field.kind == "list":
            for item in inner if isinstance(inner, list) else [inner]:
                if isinstance(item, Mapping):
                    yield from _missing(item, field.fields, f"{before}{name}.")
        elif field.kind == "object" and isinstance(inner, Mapping):
            yield from _missing(inner, field.fields, f"{before}{name}.")


def _unknown(spec: Mapping[str, Any], fields: Mapping[str, Field], before: str) -> Iterator[Gap]:
    """The names in the mapping that are no fields of the object that they stand in."""
    for name, inner in spec.items():
        if name in SPECIAL:
            continue
        if name not in fields:
            alike = difflib.get_close_matches(name, [*fields, *SPECIAL], n=1)
            hint = f" Did you mean {alike[0]}?" if alike else ""
            yield Gap(before + name, f"An account has no such field.{hint}")
        elif fields[name].fields:
            for item in inner if isinstance(inner, list) else [inner]:
                if isinstance(item, Mapping) and not LEAF & item.keys():
                    yield from _unknown(item, fields[name].fields, f"{before}{name}.")
