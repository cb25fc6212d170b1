"""What is said about a body that does not have its shape."""

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from schemas.sentence import Sentence

MAX_DEPTH = 64
"""Levels of nesting in one body; documented limit."""

REQUIRED = Sentence("This field is required.", "Dieses Feld ist erforderlich.")
NULL = Sentence("This field may not be null.", "Dieses Feld darf nicht null sein.")
BLANK = Sentence("This field may not be blank.", "Dieses Feld darf nicht leer sein.")
OUTER_BLANKS = Sentence(
    "This field may not begin or end with a blank.",
    "Dieses Feld darf nicht mit einem Leerzeichen beginnen oder enden.",
)
REPEATED = Sentence("This field is given twice in one object.", "Dieses Feld ist in einem Objekt zweimal angegeben.")
UNDOCUMENTED = Sentence("This field is not documented.", "Dieses Feld ist nicht dokumentiert.")
NO_NULL_CHARACTERS = Sentence("Null characters are not allowed.", "Nullzeichen sind nicht erlaubt.")
NO_NUMBER = Sentence("A valid number is required.", "Eine gültige Zahl ist erforderlich.")
TOO_MANY_DIGITS = Sentence(
    "A number has at most 18 digits before the point and 10 after it.",
    "Eine Zahl hat höchstens 18 Stellen vor dem Komma und 10 danach.",
)
TOO_MANY_DIGITS_ON_READING = Sentence(
    "A number has at most 18 digits before the point, 10 after it.",
    "Eine Zahl hat höchstens 18 Stellen vor dem Komma, 10 danach.",
)
"""The same, of a number in its shape."""
OUT_OF_RANGE = Sentence("This number is out of range.", "Diese Zahl liegt außerhalb des Wertebereichs.")
OUTSIDE_CALENDAR = Sentence(
    "A moment must lie in the years 1 to 9999, in UTC.", "Ein Zeitpunkt muss in UTC in den Jahren 1 bis 9999 liegen."
)
NO_SUCH_TIME = Sentence(
    "This local time does not exist: the clocks were put forward.",
    "Diese Ortszeit gibt es nicht: Die Uhren wurden vorgestellt.",
)

EMPTY_BODY = Sentence(
    "The body is empty; a JSON document is expected.", "Der Inhalt ist leer; erwartet wird ein JSON-Dokument."
)
NO_UTF8 = Sentence("The body is not valid UTF-8.", "Der Inhalt ist kein gültiges UTF-8.")
DEEP_BODY = Sentence(
    f"The body is nested deeper than {MAX_DEPTH} levels.",
    f"Der Inhalt ist tiefer als {MAX_DEPTH} Ebenen verschachtelt.",
)
CUT_BODY = Sentence(
    "The body is not a complete JSON document, or holds half of a surrogate pair.",
    "Der Inhalt ist kein vollständiges JSON-Dokument oder enthält ein halbes Surrogatpaar.",
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


def expected(what: Sentence, value: Any) -> Sentence:
    return Sentence("Expected {what}, not {kind}.", "Erwartet wird {what}, nicht {kind}.", what=what, kind=_kind(value))


def not_valid(what: Sentence) -> Sentence:
    """The sentence for a text that is no date or datetime."""
    return Sentence("This is not {what}.", "Dies ist kein gültiger Wert; erwartet wird {what}.", what=_valid(what))


def no_choice(choices: Iterable[Any]) -> Sentence:
    listed = ", ".join(map(str, choices))
    return Sentence(
        "Not a valid choice; one of {listed}.", "Keine gültige Auswahl; möglich sind {listed}.", listed=listed
    )


def undocumented(nearest: str) -> Sentence:
    """The sentence for an undocumented name; it names the documented one that was probably meant."""
    return Sentence("{says} Did you mean {name}?", "{says} Ist {name} gemeint?", says=UNDOCUMENTED, name=nearest)


def too_many_items(most: float) -> Sentence:
    return Sentence(f"An array has at most {most} items.", f"Ein Array hat höchstens {most} Einträge.")


def too_long(most: int) -> Sentence:
    return Sentence(f"This field has at most {most} characters.", f"Dieses Feld hat höchstens {most} Zeichen.")


def too_small(least: int) -> Sentence:
    return Sentence(f"The least value is {least}.", f"Der kleinste Wert ist {least}.")


def too_large(greatest: int) -> Sentence:
    return Sentence(f"The greatest value is {greatest}.", f"Der größte Wert ist {greatest}.")


def too_many_values(most: float) -> Sentence:
    return Sentence(f"A body has at most {most} values.", f"Ein Inhalt hat höchstens {most} Werte.")


def too_many_names(most: float) -> Sentence:
    return Sentence(f"An object has at most {most} names.", f"Ein Objekt hat höchstens {most} Namen.")


def too_many_containers(most: float) -> Sentence:
    return Sentence(
        f"A body has at most {most} objects and arrays.", f"Ein Inhalt hat höchstens {most} Objekte und Arrays."
    )


def too_many_decimals(most: float) -> Sentence:
    return Sentence(
        f"A body has at most {most} numbers with a fraction or an exponent.",
        f"Ein Inhalt hat höchstens {most} Zahlen mit Nachkommastellen oder Exponent.",
    )


def malformed(reason: str) -> Sentence:
    """The sentence for a body that the decoder refuses; `reason` is the decoder's own, in English."""
    if "surrogate" in reason or "truncated" in reason:
        return CUT_BODY
    english = reason.removeprefix("JSON is malformed: ").capitalize() + "."
    at = _BYTE.search(reason)
    return Sentence(
        english, f"Der Inhalt ist kein gültiges JSON (Byte {at[1]})." if at else "Der Inhalt ist kein gültiges JSON."
    )


def _valid(what: Sentence) -> Sentence:
    """`a date` as `a valid date`."""
    return Sentence(what.replace("a ", "a valid ", 1), what.german)


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
