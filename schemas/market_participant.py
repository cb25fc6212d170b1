"""A participant of the energy market, with its contacts."""

from typing import Annotated

from msgspec import Meta

from schemas.base import MAX_ITEMS, Moment, Required, Text, Wire

ParticipantCode = Annotated[int, Meta(ge=1, le=9_999_999_999_999)]
"""The market partner code (MP-ID): 13 digits, an integer on the wire."""


class ContactDetails(Wire, frozen=True, kw_only=True):
    category: Required
    """Category of the contact (Kontaktkategorie)."""
    name: Text = ""
    """Name of the contact (Ansprechpartner)."""
    email: Annotated[str, Meta(max_length=254)] = ""
    """E-mail address of the contact (E-Mail-Adresse)."""
    phone: Text = ""
    """Phone number of the contact (Telefonnummer)."""
    valid_from: Moment
    """First moment of validity (gültig ab)."""


class MarketParticipant(Wire, frozen=True, kw_only=True):
    code: ParticipantCode
    """Market partner code (Marktpartner-ID): 13 digits."""
    code_type: Text = ""
    """Organisation that issued the code (Codevergabestelle), such as BDEW, DVGW or GS1."""
    name: Text = ""
    """Name of the market participant (Marktpartner)."""
    role: Text = ""
    """Role in the market (Marktrolle)."""
    energy: Text = ""
    """Electricity or gas (Sparte)."""
    contact_details: Annotated[tuple[ContactDetails, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Contacts of the participant (Kontaktdaten)."""
