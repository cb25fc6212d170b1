"""A customer of the account, and what the customer has consented to."""

from datetime import date
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from schemas.base import MAX_ITEMS, Moment, Required, Text20, Text32, Text128, Text255, Wire


class Consent(Wire, frozen=True, kw_only=True):
    type: Required
    """What is consented to (Art der Einwilligung)."""
    value: Literal["ACCEPTED", "REJECTED", "UNKNOWN", "PENDING"]
    """The answer (Einwilligung erteilt, abgelehnt, unbekannt, ausstehend)."""
    description: Text255 = ""
    """The consent in words (Beschreibung der Einwilligung)."""
    signed_at: Moment | UnsetType = UNSET
    """When it was signed (Zeitpunkt der Unterschrift)."""


class Customer(Wire, frozen=True, kw_only=True):
    given_name: Text255 = ""
    """Given name (Vorname)."""
    family_name: Text255 = ""
    """Family name (Nachname); at least one customer has one."""
    email: Annotated[str, Meta(max_length=254)] | None = None
    """E-mail address (E-Mail-Adresse), or null."""
    mobile: Text32 | None = None
    """Mobile phone number (Mobilnummer), or null."""
    landline: Text32 | None = None
    """Fixed-line number (Festnetznummer), or null."""
    date_of_birth: date | UnsetType = UNSET
    """Date of birth (Geburtsdatum)."""
    title: Text20 = ""
    """Title (Titel), such as Dr."""
    salutation: Text128 = ""
    """Salutation (Anrede)."""
    consents: Annotated[tuple[Consent, ...], Meta(max_length=MAX_ITEMS)] = ()
    """What the customer consented to (Einwilligungen)."""
