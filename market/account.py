"""Rules over the account as a whole, its references, metadata and campaigns."""

from collections.abc import Sequence

from market.identifiers import is_postcode
from market.rule import Rule, Severity, inlined, reading
from market.uniqueness import unique_by
from schemas.account import Account
from schemas.customer import Customer
from schemas.sentence import Sentence

_CONTRACT = "public contract of sister systems, account payload"


@inlined("{v}.unknown_occupier or {v}.customers")
@reading("unknown_occupier", "customers")
def _names_a_customer(account: Account) -> bool:
    return account.unknown_occupier or bool(account.customers)


@reading("[].family_name")
def _somebody_has_a_family_name(customers: Sequence[Customer]) -> bool:
    return not customers or any(customer.family_name.strip() for customer in customers)


@inlined("not ({v}.unknown_occupier and {v}.customers)")
@reading("unknown_occupier", "customers")
def _nobody_at_an_unknown_occupier(account: Account) -> bool:
    return not (account.unknown_occupier and account.customers)


@inlined("not {v}.unknown_occupier or len({v}.supply_addresses) <= 1")
@reading("unknown_occupier", "supply_addresses")
def _one_address_of_an_unknown_occupier(account: Account) -> bool:
    return not account.unknown_occupier or len(account.supply_addresses) <= 1


@reading("billing_address1", "supply_addresses")
def _has_an_address(account: Account) -> bool:
    return bool(account.billing_address1.strip() or account.supply_addresses)


ACCOUNT: tuple[Rule, ...] = (
    Rule(
        code="required",
        at="",
        field="customers",
        holds=_names_a_customer,
        says=Sentence(
            "An account has at least one customer, unless its occupier is unknown.",
            "Ein Konto hat mindestens einen Kunden, außer wenn der Bewohner unbekannt ist.",
        ),
        source=_CONTRACT,
    ),
    Rule(
        code="customer_family_name_required",
        at="customers",
        field="0.family_name",
        holds=_somebody_has_a_family_name,
        says=Sentence("At least one customer has a family name.", "Mindestens ein Kunde hat einen Nachnamen."),
        source=_CONTRACT,
    ),
    Rule(
        code="customer_with_unknown_occupier",
        at="",
        holds=_nobody_at_an_unknown_occupier,
        says=Sentence(
            "An account with an unknown occupier has no customers.",
            "Ein Konto mit unbekanntem Bewohner hat keine Kunden.",
        ),
        source=_CONTRACT,
    ),
    Rule(
        code="occupier_account_with_multiple_supply_addresses",
        at="",
        holds=_one_address_of_an_unknown_occupier,
        says=Sentence(
            "An account with an unknown occupier has one supply address at most.",
            "Ein Konto mit unbekanntem Bewohner hat höchstens eine Lieferstelle.",
        ),
        source=_CONTRACT,
    ),
    Rule(
        code="billing_address_not_provided",
        at="",
        holds=_has_an_address,
        says=Sentence(
            "An account has a billing address or a supply address.",
            "Ein Konto hat eine Rechnungsadresse oder eine Lieferstelle.",
        ),
        source=_CONTRACT,
    ),
    Rule(
        code="invalid_postcode",
        at="billing_postcode",
        holds=is_postcode,
        says=Sentence("A German postcode has five digits.", "Eine deutsche Postleitzahl hat fünf Ziffern."),
        source="Deutsche Post, Leitfaden zur Postleitzahl",
        severity=Severity.WARNING,
    ),
    Rule(
        code="children_with_duplicate_values",
        at="references",
        holds=unique_by("namespace", "value"),
        says=Sentence(
            "No two references have the same namespace and value.",
            "Keine zwei Referenzen haben denselben Namensraum und Wert.",
        ),
        source=_CONTRACT,
    ),
    Rule(
        code="duplicate_account_campaigns",
        at="account_campaigns",
        holds=unique_by("slug"),
        says=Sentence("No campaign is named twice.", "Keine Kampagne wird zweimal genannt."),
        source=_CONTRACT,
    ),
    Rule(
        code="metadata_has_duplicate_keys",
        at="metadata",
        holds=unique_by("key"),
        says=Sentence("No metadata key is given twice.", "Kein Schlüssel der Metadaten wird zweimal angegeben."),
        source=_CONTRACT,
    ),
)
