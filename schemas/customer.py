"""A customer of the account, with consents."""

from datetime import date
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from schemas.base import MAX_ITEMS, Moment, Prose, Required, Text, Wire


class Consent(Wire, frozen=True, kw_only=True):
    type: Required
    """Type of consent (Art der Einwilligung)."""
    value: Literal["ACCEPTED", "REJECTED", "UNKNOWN", "PENDING"]
    """The answer (Einwilligung erteilt, abgelehnt, unbekannt, ausstehend)."""
    description: Prose = ""
    """The consent in words (Beschreibung der Einwilligung)."""
    signed_at: Moment | UnsetType = UNSET
    """Time of the signature (Zeitpunkt der Einwilligung)."""


class Customer(Wire, frozen=True, kw_only=True):
    given_name: Text = ""
    """Given name (Vorname)."""
    family_name: Text = ""
    """Family name (Nachname); at least one customer must have one."""
    email: Annotated[str, Meta(max_length=254)] | None = None
    """E-mail address (E-Mail-Adresse), or null."""
    mobile: Text | None = None
    """Mobile phone number (Mobilnummer), or null."""
    landline: Text | None = None
    """Fixed-line number (Festnetznummer), or null."""
    date_of_birth: date | UnsetType = UNSET
    """Date of birth (Geburtsdatum)."""
    title: Text = ""
    """Title (Titel), such as Dr."""
    salutation: Text = ""
    """Salutation (Anrede)."""
    consents: Annotated[tuple[Consent, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Consents of the customer (Einwilligungen)."""
