"""A customer of the account, and what the customer has consented to."""

from datetime import date
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from schemas.base import MAX_ITEMS, Moment, Required, Text20, Text32, Text128, Text255, Wire


class Consent(Wire, frozen=True, kw_only=True):
    type: Required
    value: Literal["ACCEPTED", "REJECTED", "UNKNOWN", "PENDING"]
    description: Text255 = ""
    signed_at: Moment | UnsetType = UNSET


class Customer(Wire, frozen=True, kw_only=True):
    given_name: Text255 = ""
    family_name: Text255 = ""
    email: Annotated[str, Meta(max_length=254)] | None = None
    mobile: Text32 | None = None
    landline: Text32 | None = None
    date_of_birth: date | UnsetType = UNSET
    title: Text20 = ""
    salutation: Text128 = ""
    consents: Annotated[tuple[Consent, ...], Meta(max_length=MAX_ITEMS)] = ()
