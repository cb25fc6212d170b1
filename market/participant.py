"""Rules over market participants and their price sheets."""

from msgspec import UNSET

from market.identifiers import is_email
from market.rule import Rule, RuleBook, error
from schemas.market_participant import MarketParticipant
from schemas.price_sheet import ArticlePrice, FeeImport, IntervalZone, PriceSheet

_PRICAT = "EDI@Energy PRICAT MIG 2.0e, 2025-09-30"


def is_possible_phone_number(text: str) -> bool:
    """Return True if the length of a phone number fits its country.

    Assigned ranges are not checked, because published examples of participants have numbers outside assigned ranges.
    """
    import phonenumbers  # imported here: `phonenumbers` is large, and most processes check no participant

    try:
        return phonenumbers.is_possible_number(phonenumbers.parse(text, "DE"))
    except phonenumbers.NumberParseException:
        return False


def _zone(price: ArticlePrice) -> tuple[object, ...]:
    zone = price.interval_zone
    return (price.article_id, None, None) if zone is UNSET else (price.article_id, zone.lower_bound, zone.upper_bound)


def _prices_differ(sheet: PriceSheet) -> bool:
    return len({_zone(price) for price in sheet.article_prices}) == len(sheet.article_prices)


def _unused_sheets_are_empty(sheet: PriceSheet) -> bool:
    return bool(sheet.article_prices) != sheet.is_price_sheet_unused


def _bounds_in_order(zone: IntervalZone) -> bool:
    return zone.upper_bound is None or zone.lower_bound <= zone.upper_bound


PARTICIPANT: tuple[Rule, ...] = (
    error(
        "invalid",
        "contact_details[].email",
        is_email,
        "The e-mail address must be valid.",
        "Die E-Mail-Adresse muss gültig sein.",
        source="RFC 5321, RFC 6531",
    ),
    error(
        "invalid_phone_number",
        "contact_details[].phone",
        is_possible_phone_number,
        "The phone number must have a possible length.",
        "Die Telefonnummer muss eine mögliche Länge haben.",
        source="ITU-T E.164",
    ),
)

PRICE_SHEETS: tuple[Rule, ...] = (
    error(
        "unused_price_sheet_with_prices",
        "price_sheets[]",
        _unused_sheets_are_empty,
        "A price sheet must have prices, unless it is unused.",
        "Ein Preisblatt muss Preise haben, außer wenn es ungenutzt ist.",
        source=f"{_PRICAT}, BGM DE1373 code 11",
        field="article_prices",
    ),
    error(
        "children_with_duplicate_values",
        "price_sheets[]",
        _prices_differ,
        "A price sheet must not have two prices for an article in one interval zone.",
        "Ein Preisblatt darf für einen Artikel in einer Zone nicht zwei Preise haben.",
        source=f"{_PRICAT}, LIN and RNG",
        field="article_prices",
    ),
    error(
        "lower_bound_above_upper_bound",
        "price_sheets[].article_prices[].interval_zone",
        _bounds_in_order,
        "Interval zone: the upper bound must not be below the lower bound.",
        "Zone: Die Obergrenze darf nicht unter der Untergrenze liegen.",
        source=f"{_PRICAT}, RNG DE6162 and DE6152",
        field="upper_bound",
    ),
)


PARTICIPANT_BOOK = RuleBook.of(MarketParticipant, PARTICIPANT)
FEE_BOOK = RuleBook.of(FeeImport, PRICE_SHEETS)
