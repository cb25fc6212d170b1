"""Fee price sheets of market participants; a sheet mirrors one PRICAT message."""

from decimal import Decimal
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from schemas.base import MAX_ITEMS, DecimalText, Moment, Text, Wire
from schemas.market_participant import ParticipantCode


class IntervalZone(Wire, frozen=True, kw_only=True):
    """The range of quantities that a price is for; open above when `upper_bound` is null or absent."""

    lower_bound: Decimal
    upper_bound: Decimal | None = None


class ArticlePrice(Wire, frozen=True, kw_only=True):
    """The price of one article, in cents, net of tax."""

    article_id: Annotated[str, Meta(min_length=1, max_length=35)]
    price_cents: DecimalText
    interval_zone: IntervalZone | UnsetType = UNSET


class PriceSheet(Wire, frozen=True, kw_only=True):
    """One document of one participant. An unused sheet carries no prices."""

    market_participant_code: ParticipantCode
    price_sheet_type: Text = ""
    document_number: Annotated[str, Meta(min_length=1, max_length=70)]
    preceding_document_number: Annotated[str, Meta(max_length=70)] = ""
    is_price_sheet_unused: bool = False
    active_from: Moment
    external_id: Text = ""
    article_prices: Annotated[tuple[ArticlePrice, ...], Meta(max_length=MAX_ITEMS)] = ()


class FeeImport(Wire, frozen=True, kw_only=True):
    """The body of the fee import: all sheets are imported, or none."""

    price_sheets: Annotated[tuple[PriceSheet, ...], Meta(max_length=MAX_ITEMS)]
