"""Sentences about bodies that do not fit their shape. `field_names.named` replaces "This field" by its name."""

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from schemas.sentence import Sentence

MAX_DEPTH = 64
"""Levels of nesting in one body; documented limit."""

REQUIRED = Sentence("This field must be given.", "Dieses Feld muss angegeben sein.")
NULL = Sentence("This field must not be null.", "Dieses Feld darf nicht null sein.")
BLANK = Sentence("This field must not be blank.", "Dieses Feld darf nicht leer sein.")
OUTER_BLANKS = Sentence(
    "This field must not begin or end with a blank.",
    "Dieses Feld darf nicht mit einem Leerzeichen beginnen oder enden.",
)
DOT_SEGMENT = Sentence(
    "This field must not be a single or a double dot: no address could name the account.",
    "Dieses Feld darf nicht nur aus einem oder zwei Punkten bestehen: Keine Adresse könnte das Konto nennen.",
)
REPEATED = Sentence(
    "This field must not be given twice in one object.",
    "Dieses Feld darf in einem Objekt nicht zweimal angegeben sein.",
)
UNDOCUMENTED = Sentence(
    "This field is not documented and must be left out.",
    "Dieses Feld ist nicht dokumentiert und muss weggelassen werden.",
)
NO_NULL_CHARACTERS = Sentence(
    "This field must not hold null characters.", "Dieses Feld darf keine Nullzeichen enthalten."
)
NO_NUMBER = Sentence("This field must be a valid number.", "Dieses Feld muss eine gültige Zahl sein.")
TOO_MANY_DIGITS = Sentence(
    "This field must have at most 18 digits before the point and 10 after it.",
    "Dieses Feld darf höchstens 18 Stellen vor dem Komma und 10 danach haben.",
)
TOO_MANY_DIGITS_ON_READING = Sentence(
    "This field must have at most 18 digits before the point, 10 after it.",
    "Dieses Feld darf höchstens 18 Stellen vor dem Komma, 10 danach haben.",
)
"""Sentence for too many digits if a check after decoding finds the error (`shape.derived_checks`)."""
OUT_OF_RANGE = Sentence("This field must have at most 64 bits.", "Dieses Feld darf höchstens 64 Bit haben.")
OUTSIDE_CALENDAR = Sentence(
    "This field must lie in the years 1 to 9999, in UTC.",
    "Dieses Feld muss in UTC in den Jahren 1 bis 9999 liegen.",
)
NO_SUCH_TIME = Sentence(
    "This field must be a local time that exists: the clocks were put forward past this one.",
    "Dieses Feld muss eine Ortszeit sein, die es gibt: Über diese wurden die Uhren vorgestellt.",
)

EMPTY_BODY = Sentence(
    "The body must not be empty; a JSON document is expected.",
    "Der Inhalt darf nicht leer sein; erwartet wird ein JSON-Dokument.",
)
NO_UTF8 = Sentence("The body must be valid UTF-8.", "Der Inhalt muss gültiges UTF-8 sein.")
DEEP_BODY = Sentence(
    f"The body must not be nested deeper than {MAX_DEPTH} levels.",
    f"Der Inhalt darf nicht tiefer als {MAX_DEPTH} Ebenen verschachtelt sein.",
)
CUT_BODY = Sentence(
    "The body must be a complete JSON document, and must not hold half of a surrogate pair.",
    "Der Inhalt muss ein vollständiges JSON-Dokument sein und darf kein halbes Surrogatpaar enthalten.",
)

DATE = Sentence("a date (YYYY-MM-DD)", "ein Datum (JJJJ-MM-TT)")
DATETIME = Sentence("a datetime (ISO 8601)", "ein Zeitpunkt (ISO 8601)")
OBJECT = Sentence("an object", "ein Objekt")
ARRAY = Sentence("an array", "ein Array")
BOOLEAN = Sentence("true or false", "true oder false")
STRING = Sentence("a string", "ein Text")
INTEGER = Sentence("an integer", "eine ganze Zahl")
DECIMAL = Sentence("a decimal number", "eine Dezimalzahl")

_BYTE = re.compile(r"\(byte (\d+)\)")


def expected(expected_type: Sentence, value: Any) -> Sentence:
    return Sentence(
        "This field must be {expected_type}, not {kind}.",
        "Dieses Feld muss {expected_type} sein, nicht {kind}.",
        expected_type=expected_type,
        kind=_kind(value),
    )


def not_valid(expected_type: Sentence) -> Sentence:
    """Return the sentence for a text that is not a date or datetime."""
    return Sentence(
        "This field must be {expected_type}.",
        "Dieses Feld muss {expected_type} sein.",
        expected_type=_valid(expected_type),
    )


def no_choice(choices: Iterable[Any]) -> Sentence:
    listed = ", ".join(map(str, choices))
    english, german = "This field must be one of {listed}.", "Dieses Feld muss einer der Werte {listed} sein."
    return Sentence(english, german, listed=listed)


def undocumented(nearest: str) -> Sentence:
    """Return the sentence for an undocumented name, with the documented name that the importer probably meant."""
    return Sentence("{says} Did you mean {name}?", "{says} Ist {name} gemeint?", says=UNDOCUMENTED, name=nearest)


def too_many_items(most: float) -> Sentence:
    return Sentence(f"This field must have at most {most} items.", f"Dieses Feld darf höchstens {most} Einträge haben.")


def too_long(most: int) -> Sentence:
    return Sentence(
        f"This field must have at most {most} characters.", f"Dieses Feld darf höchstens {most} Zeichen haben."
    )


def too_small(least: int) -> Sentence:
    return Sentence(f"This field must be at least {least}.", f"Dieses Feld muss mindestens {least} sein.")


def too_large(greatest: int) -> Sentence:
    return Sentence(f"This field must be at most {greatest}.", f"Dieses Feld darf höchstens {greatest} sein.")


def too_many_values(most: float) -> Sentence:
    return Sentence(f"A body must have at most {most} values.", f"Ein Inhalt darf höchstens {most} Werte haben.")


def too_many_names(most: float) -> Sentence:
    return Sentence(f"An object must have at most {most} names.", f"Ein Objekt darf höchstens {most} Namen haben.")


def too_many_containers(most: float) -> Sentence:
    return Sentence(
        f"A body must have at most {most} objects and arrays.",
        f"Ein Inhalt darf höchstens {most} Objekte und Arrays haben.",
    )


def too_many_decimals(most: float) -> Sentence:
    return Sentence(
        f"A body must have at most {most} numbers with a fraction or an exponent.",
        f"Ein Inhalt darf höchstens {most} Zahlen mit Nachkommastellen oder Exponent haben.",
    )


def malformed(reason: str) -> Sentence:
    """Return the sentence for a body that the decoder refuses; `reason` is the decoder's message, in English."""
    if "surrogate" in reason or "truncated" in reason:
        return CUT_BODY
    at = _BYTE.search(reason)
    offset = f" (Byte {at[1]})" if at else ""
    return Sentence(
        "The body must be valid JSON: {reason}.",
        f"Der Inhalt muss gültiges JSON sein{offset}.",
        reason=reason.removeprefix("JSON is malformed: "),
    )


def _valid(expected_type: Sentence) -> Sentence:
    """Return `a valid date` for `a date`; the German sentence is unchanged."""
    return Sentence(expected_type.replace("a ", "a valid ", 1), expected_type.german)


def _kind(value: Any) -> Sentence:
    match value:
        case None:
            return Sentence("null", "null")
        case bool():
            return Sentence("a boolean", "ein Wahrheitswert")
        case int() | float() | Decimal():
            return Sentence("a number", "eine Zahl")
        case str():
            return STRING
        case list():
            return ARRAY
        case _:
            return OBJECT
