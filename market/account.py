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
            "An account must have at least one customer, unless its occupier is unknown.",
            "Ein Konto muss mindestens einen Kunden haben, außer wenn der Bewohner unbekannt ist.",
        ),
        source=_CONTRACT,
    ),
    Rule(
        code="customer_family_name_required",
        at="customers",
        field="0.family_name",
        holds=_somebody_has_a_family_name,
        says=Sentence(
            "At least one customer must have a family name.", "Mindestens ein Kunde muss einen Nachnamen haben."
        ),
        source=_CONTRACT,
    ),
    Rule(
        code="customer_with_unknown_occupier",
        at="",
        holds=_nobody_at_an_unknown_occupier,
        says=Sentence(
            "An account with an unknown occupier must not have customers.",
            "Ein Konto mit unbekanntem Bewohner darf keine Kunden haben.",
        ),
        source=_CONTRACT,
    ),
    Rule(
        code="occupier_account_with_multiple_supply_addresses",
        at="",
        holds=_one_address_of_an_unknown_occupier,
        says=Sentence(
            "An account with an unknown occupier must not have more than one supply address.",
            "Ein Konto mit unbekanntem Bewohner darf höchstens eine Lieferstelle haben.",
        ),
        source=_CONTRACT,
    ),
    Rule(
        code="billing_address_not_provided",
        at="",
        holds=_has_an_address,
        says=Sentence(
            "An account must have a billing address or a supply address.",
            "Ein Konto muss eine Rechnungsadresse oder eine Lieferstelle haben.",
        ),
        source=_CONTRACT,
    ),
    Rule(
        code="invalid_postcode",
        at="billing_postcode",
        holds=is_postcode,
        says=Sentence(
            "A German postcode must have five digits.", "Eine deutsche Postleitzahl muss fünf Ziffern haben."
        ),
        source="Deutsche Post, Leitfaden zur Postleitzahl",
        severity=Severity.WARNING,
    ),
    Rule(
        code="children_with_duplicate_values",
        at="references",
        holds=unique_by("namespace", "value"),
        says=Sentence(
            "Two references must not have the same namespace and value.",
            "Zwei Referenzen dürfen nicht denselben Namensraum und Wert haben.",
        ),
        source=_CONTRACT,
    ),
    Rule(
        code="duplicate_account_campaigns",
        at="account_campaigns",
        holds=unique_by("slug"),
        says=Sentence("A campaign must not be named twice.", "Eine Kampagne darf nicht zweimal genannt sein."),
        source=_CONTRACT,
    ),
    Rule(
        code="metadata_has_duplicate_keys",
        at="metadata",
        holds=unique_by("key"),
        says=Sentence(
            "A metadata key must not be given twice.", "Ein Schlüssel der Metadaten darf nicht zweimal angegeben sein."
        ),
        source=_CONTRACT,
    ),
)
