"""Rules over market participants and their price sheets."""

from msgspec import UNSET

from market.identifiers import is_email
from market.rule import Rule, RuleBook
from schemas.market_participant import MarketParticipant
from schemas.price_sheet import ArticlePrice, FeeImport, IntervalZone, PriceSheet
from schemas.sentence import Sentence

_PRICAT = "EDI@Energy PRICAT MIG 2.0e, 2025-09-30"


def is_possible_phone_number(text: str) -> bool:
    """A number that could exist: published examples of participants name numbers that are not given out."""
    import phonenumbers  # it is large, and most processes judge no participant

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
    Rule(
        code="invalid",
        at="contact_details[].email",
        holds=is_email,
        says=Sentence("This must be a valid e-mail address.", "Dies muss eine gültige E-Mail-Adresse sein."),
        source="RFC 5321, RFC 6531",
    ),
    Rule(
        code="invalid_phone_number",
        at="contact_details[].phone",
        holds=is_possible_phone_number,
        says=Sentence("This must be a possible phone number.", "Dies muss eine mögliche Telefonnummer sein."),
        source="ITU-T E.164",
    ),
)

PRICE_SHEETS: tuple[Rule, ...] = (
    Rule(
        code="unused_price_sheet_with_prices",
        at="price_sheets[]",
        field="article_prices",
        holds=_unused_sheets_are_empty,
        says=Sentence(
            "A sheet must have prices, unless it is unused.",
            "Ein Preisblatt muss Preise haben, außer wenn es ungenutzt ist.",
        ),
        source=f"{_PRICAT}, BGM DE1373 code 11",
    ),
    Rule(
        code="children_with_duplicate_values",
        at="price_sheets[]",
        field="article_prices",
        holds=_prices_differ,
        says=Sentence(
            "A sheet must not price an article twice in one interval zone.",
            "Ein Preisblatt darf einen Artikel in einer Zone nicht zweimal nennen.",
        ),
        source=f"{_PRICAT}, LIN and RNG",
    ),
    Rule(
        code="lower_bound_above_upper_bound",
        at="price_sheets[].article_prices[].interval_zone",
        field="upper_bound",
        holds=_bounds_in_order,
        says=Sentence(
            "upper_bound must not be below lower_bound.", "upper_bound darf nicht kleiner als lower_bound sein."
        ),
        source=f"{_PRICAT}, RNG DE6162 and DE6152",
    ),
)


PARTICIPANT_BOOK = RuleBook.of(MarketParticipant, PARTICIPANT)
FEE_BOOK = RuleBook.of(FeeImport, PRICE_SHEETS)
