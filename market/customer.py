"""Rules over customers, how to reach them and what they consented to."""

from market.identifiers import is_email, is_phone_number
from market.periods import is_past
from market.rule import Rule
from market.uniqueness import unique_by
from schemas.sentence import Sentence

_CONTRACT = "public contract of sister systems, customer object"
_E164 = "ITU-T E.164, national numbering plan of Germany (Bundesnetzagentur)"


def _is_somebody(family_name: str) -> bool:
    return family_name.strip().casefold() != "the occupier"


CUSTOMER: tuple[Rule, ...] = (
    Rule(
        code="customer_may_not_be_named_the_occupier",
        at="customers[].family_name",
        holds=_is_somebody,
        says=Sentence(
            "A customer must not be named The Occupier; set unknown_occupier instead.",
            "Ein Kunde darf nicht „The Occupier“ heißen; stattdessen ist unknown_occupier zu setzen.",
        ),
        source=_CONTRACT,
    ),
    Rule(
        code="invalid",
        at="customers[].email",
        holds=is_email,
        says=Sentence("This must be a valid e-mail address.", "Dies muss eine gültige E-Mail-Adresse sein."),
        source="RFC 5321, RFC 6531",
    ),
    Rule(
        code="invalid_phone_number",
        at="customers[].mobile",
        holds=is_phone_number,
        says=Sentence("This must be a valid phone number.", "Dies muss eine gültige Telefonnummer sein."),
        source=_E164,
    ),
    Rule(
        code="invalid_phone_number",
        at="customers[].landline",
        holds=is_phone_number,
        says=Sentence("This must be a valid phone number.", "Dies muss eine gültige Telefonnummer sein."),
        source=_E164,
    ),
    Rule(
        code="children_with_duplicate_values",
        at="customers[].consents",
        holds=unique_by("type"),
        says=Sentence(
            "A customer must not answer a type of consent twice.",
            "Ein Kunde darf eine Art von Einwilligung nicht zweimal beantworten.",
        ),
        source=_CONTRACT,
    ),
    Rule(
        code="date_in_future",
        at="customers[].consents[].signed_at",
        holds=is_past,
        needs_now=True,
        says=Sentence(
            "A consent must not be signed in the future.",
            "Eine Einwilligung darf nicht in der Zukunft unterschrieben sein.",
        ),
        source=_CONTRACT,
    ),
)
