"""Rules over the account as a whole, its references, metadata and campaigns."""

from collections.abc import Sequence
from functools import partial

from market.identifiers import is_postcode
from market.rule import Rule, error, reading, warning
from market.uniqueness import unique_by
from schemas.account import Account
from schemas.customer import Customer

_CONTRACT = "public contract of sister systems, account payload"
_error = partial(error, source=_CONTRACT)


@reading("unknown_occupier", "customers")
def _has_customer(account: Account) -> bool:
    return account.unknown_occupier or bool(account.customers)


@reading("[].family_name")
def _has_family_name(customers: Sequence[Customer]) -> bool:
    return not customers or any(customer.family_name.strip() for customer in customers)


@reading("unknown_occupier", "customers")
def _no_customer_of_unknown_occupier(account: Account) -> bool:
    return not (account.unknown_occupier and account.customers)


@reading("unknown_occupier", "supply_addresses")
def _one_address_of_unknown_occupier(account: Account) -> bool:
    return not account.unknown_occupier or len(account.supply_addresses) <= 1


@reading("billing_address1", "supply_addresses")
def _has_an_address(account: Account) -> bool:
    return bool(account.billing_address1.strip() or account.supply_addresses)


ACCOUNT: tuple[Rule, ...] = (
    _error(
        "required",
        "",
        _has_customer,
        "An account must have at least one customer, unless its occupier is unknown.",
        "Ein Konto muss mindestens einen Kunden haben, außer wenn der Bewohner unbekannt ist.",
        field="customers",
    ),
    _error(
        "customer_family_name_required",
        "customers",
        _has_family_name,
        "At least one customer must have a family name.",
        "Mindestens ein Kunde muss einen Nachnamen haben.",
        field="0.family_name",
    ),
    _error(
        "customer_with_unknown_occupier",
        "",
        _no_customer_of_unknown_occupier,
        "An account with an unknown occupier must not have customers.",
        "Ein Konto mit unbekanntem Bewohner darf keine Kunden haben.",
    ),
    _error(
        "occupier_account_with_multiple_supply_addresses",
        "",
        _one_address_of_unknown_occupier,
        "An account with an unknown occupier must not have more than one supply address.",
        "Ein Konto mit unbekanntem Bewohner darf höchstens eine Lieferstelle haben.",
    ),
    _error(
        "billing_address_not_provided",
        "",
        _has_an_address,
        "An account must have a billing address or a supply address.",
        "Ein Konto muss eine Rechnungsadresse oder eine Lieferstelle haben.",
    ),
    warning(
        "invalid_postcode",
        "billing_postcode",
        is_postcode,
        "A German postcode must have five digits.",
        "Eine deutsche Postleitzahl muss fünf Ziffern haben.",
        source="Deutsche Post, Leitfaden zur Postleitzahl",
    ),
    _error(
        "children_with_duplicate_values",
        "references",
        unique_by("namespace", "value"),
        "Two references must not have the same namespace and value.",
        "Zwei Referenzen dürfen nicht denselben Namensraum und Wert haben.",
    ),
    _error(
        "duplicate_account_campaigns",
        "account_campaigns",
        unique_by("slug"),
        "A campaign must not be named twice.",
        "Eine Kampagne darf nicht zweimal genannt sein.",
    ),
    _error(
        "metadata_has_duplicate_keys",
        "metadata",
        unique_by("key"),
        "A metadata key must not be given twice.",
        "Ein Schlüssel der Metadaten darf nicht zweimal angegeben sein.",
    ),
)
