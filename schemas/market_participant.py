"""A participant of the energy market, with whom to contact there."""

from typing import Annotated

from msgspec import Meta

from schemas.base import MAX_ITEMS, Moment, Required, Text, Text255, Wire

ParticipantCode = Annotated[int, Meta(ge=1, le=9_999_999_999_999)]
"""The market partner code (MP-ID): 13 digits, an integer on the wire."""


class ContactDetails(Wire, frozen=True, kw_only=True):
    category: Required
    name: Text255 = ""
    email: Annotated[str, Meta(max_length=254)] = ""
    phone: Text = ""
    valid_from: Moment


class MarketParticipant(Wire, frozen=True, kw_only=True):
    code: ParticipantCode
    code_type: Text = ""
    name: Text = ""
    role: Text = ""
    energy: Text = ""
    contact_details: Annotated[tuple[ContactDetails, ...], Meta(max_length=MAX_ITEMS)] = ()
