"""Fee price sheets of market participants; a sheet mirrors one PRICAT message."""

from decimal import Decimal
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from schemas.base import MAX_ITEMS, DecimalText, Moment, Text, Wire
from schemas.market_participant import ParticipantCode


class IntervalZone(Wire, frozen=True, kw_only=True):
    """The range of quantities of a price; open above if `upper_bound` is null or absent."""

    lower_bound: Decimal
    """Lower bound of the zone (Untergrenze der Zone)."""
    upper_bound: Decimal | None = None
    """Upper bound of the zone (Obergrenze der Zone); null for an open zone."""


class ArticlePrice(Wire, frozen=True, kw_only=True):
    """The price of one article, in cents, net of tax."""

    article_id: Annotated[str, Meta(min_length=1, max_length=35)]
    """Identifier of the article (Artikel-ID) in the code list of articles (Codeliste der Artikelnummern)."""
    price_cents: DecimalText
    """Price in cents (Preis in Cent)."""
    interval_zone: IntervalZone | UnsetType = UNSET
    """Zone of the price (Zone, Staffel)."""


class PriceSheet(Wire, frozen=True, kw_only=True):
    """Price document of one participant. An unused sheet has no prices."""

    market_participant_code: ParticipantCode
    """Market partner code of the participant that has these prices (Marktpartner-ID): 13 digits."""
    price_sheet_type: Text = ""
    """Kind of price sheet (Art des Preisblatts)."""
    document_number: Annotated[str, Meta(min_length=1, max_length=70)]
    """Number of the document (Dokumentennummer); identifies the sheet of a participant."""
    preceding_document_number: Annotated[str, Meta(max_length=70)] = ""
    """Number of the preceding sheet (Nummer des Vorgängerpreisblatts)."""
    is_price_sheet_unused: bool = False
    """True if the sheet is not used and has no prices (Preisblatt ungenutzt)."""
    active_from: Moment
    """First moment of validity of the prices (Preise gültig ab)."""
    external_id: Text = ""
    """Identifier in the old system (ID im Altsystem)."""
    article_prices: Annotated[tuple[ArticlePrice, ...], Meta(max_length=MAX_ITEMS)] = ()
    """The prices (Artikelpreise)."""


class FeeImport(Wire, frozen=True, kw_only=True):
    """The body of the fee import: all sheets are imported, or none."""

    price_sheets: Annotated[tuple[PriceSheet, ...], Meta(max_length=MAX_ITEMS)]
    """The price sheets (Preisblätter); all are imported, or none."""
