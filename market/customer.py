"""Rules over customers, their contact data and their consents."""

from functools import partial

from market.identifiers import is_email, is_phone_number
from market.periods import is_past
from market.rule import Rule, error
from market.uniqueness import unique_by

_CONTRACT = "public contract of sister systems, customer object"
_error = partial(error, source=_CONTRACT)
_E164 = "ITU-T E.164, national numbering plan of Germany (Bundesnetzagentur)"


def _is_not_the_occupier(family_name: str) -> bool:
    return family_name.strip().casefold() != "the occupier"


CUSTOMER: tuple[Rule, ...] = (
    _error(
        "customer_may_not_be_named_the_occupier",
        "customers[].family_name",
        _is_not_the_occupier,
        "A customer must not be named The Occupier. The account must set `unknown_occupier` instead.",
        "Ein Kunde darf nicht „The Occupier“ heißen. Das Konto muss stattdessen `unknown_occupier` setzen.",
    ),
    error(
        "invalid",
        "customers[].email",
        is_email,
        "The e-mail address must be valid.",
        "Die E-Mail-Adresse muss gültig sein.",
        source="RFC 5321, RFC 6531",
    ),
    error(
        "invalid_phone_number",
        "customers[].mobile",
        is_phone_number,
        "The mobile number must be a valid phone number.",
        "Die Mobilnummer muss eine gültige Telefonnummer sein.",
        source=_E164,
    ),
    error(
        "invalid_phone_number",
        "customers[].landline",
        is_phone_number,
        "The landline number must be a valid phone number.",
        "Die Festnetznummer muss eine gültige Telefonnummer sein.",
        source=_E164,
    ),
    _error(
        "children_with_duplicate_values",
        "customers[].consents",
        unique_by("type"),
        "A customer must not have two answers to the same type of consent.",
        "Ein Kunde darf nicht zwei Antworten auf dieselbe Art von Einwilligung haben.",
    ),
    _error(
        "date_in_future",
        "customers[].consents[].signed_at",
        is_past,
        "The time of a consent must not lie in the future.",
        "Der Zeitpunkt einer Einwilligung darf nicht in der Zukunft liegen.",
        needs_now=True,
    ),
)
