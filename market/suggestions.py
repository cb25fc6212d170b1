"""Suggested values for problems of an account, if there is a safe value.

Pure. A suggestion is listed only if the suggested value removes the problem from the account and adds no other problem.
Names of people are never corrected: two swapped names, or an umlaut written as two letters, may be right.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

import msgspec

from market.identifiers import is_market_location_id, is_metering_location_id, is_phone_number
from market.submission_check import Occasion, Terms, check_submission
from schemas.base import Problem, SuggestedProblem, Suggestion
from schemas.reading.problems import LeftOut
from schemas.reading.shape import NotJson, exact_number
from schemas.reading.work import TooMuchWork
from schemas.sentence import Sentence
from schemas.submission import is_wrapped, sent_submission

MOST_VALUES = 10
"""Values that are tried for one account. An account with a tried value is checked with all rules."""
MOST_BYTES = 2**18
"""Limit of the bytes of an account times the values that are tried.

For larger accounts, fewer values are tried, or none.
"""
_BLANKS = " \t\r\n\u00a0\u2007\u202f\u200b\ufeff"
_SEPARATORS = re.compile(rf"[{_BLANKS}.\-/()]")
_PHONE = re.compile(rf"[^0-9+]*(\+?[0-9][0-9{_BLANKS}.\-/()]*)[^0-9+]*\Z")
_POSTCODE = re.compile(r"(?:DE?-)?([0-9]{4,5})\Z", re.IGNORECASE)
_DATES = (
    re.compile(r"(?P<day>[0-9]{1,2})\.(?P<month>[0-9]{1,2})\.(?P<year>[0-9]{4})\Z"),
    re.compile(r"(?P<year>[0-9]{4})-(?P<day>[0-9]{2})-(?P<month>[0-9]{2})\Z"),
    re.compile(r"(?P<day>[0-9]{1,2})/(?P<month>[0-9]{1,2})/(?P<year>[0-9]{4})\Z"),
    re.compile(r"(?P<month>[0-9]{1,2})/(?P<day>[0-9]{1,2})/(?P<year>[0-9]{4})\Z"),
    re.compile(r"(?P<year>[0-9]{4})(?P<month>[0-9]{2})(?P<day>[0-9]{2})\Z"),
)
_Name = tuple[str, str]
"""Path and code of a problem."""
_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder(float_hook=exact_number).decode


class _Remedy(NamedTuple):
    """A way to correct values: its name, its fields (None: any), the values to try, and the sentence for people."""

    name: str
    fields: frozenset[str] | None
    values: Callable[[str, Any], Iterable[str]]
    """Yields values to try for a wrong value without outer blanks, and the object that has it.

    For a metering location, the object is the supply point.
    """
    sentence: Sentence


def with_suggestions(
    body: bytes, problems: Sequence[Problem], terms: Terms, at: datetime, occasion: Occasion
) -> list[Problem]:
    """Return the problems of a body. A problem with a safe correction is returned as `SuggestedProblem`."""
    most = min(MOST_VALUES, MOST_BYTES // len(body))
    if not most or not problems:
        return [*problems]

    def names_of(changed: bytes) -> set[_Name] | None:
        try:
            check = check_submission(sent_submission(changed), terms, at, occasion=occasion)
        except (NotJson, TooMuchWork):
            return None
        found = (*check.problems, *check.warnings)
        return None if any(isinstance(problem, LeftOut) for problem in found) else {(p.attr, p.code) for p in found}

    before = names_of(body)
    if before is None:
        return [*problems]
    result, tried = list[Problem](), 0
    account, remaining = body, before
    for problem in problems:
        name, suggestion = (problem.attr, problem.code), None
        for changed, candidate in _candidates(body, problem) if name in remaining else ():
            if tried == most:
                break
            tried += 1
            if _fewer(before, names_of(changed), name) is None:
                continue
            corrected = applied(account, problem.attr, candidate.value)
            together = _fewer(remaining, names_of(corrected), name)
            if together is not None:
                suggestion, account, remaining = candidate, corrected, together
                break
        result.append(
            problem
            if suggestion is None
            else SuggestedProblem(problem.attr, problem.code, problem.detail, suggestion=suggestion)
        )
    return result


def applied(body: bytes, attr: str, value: str) -> bytes:
    """Return the body with a suggested value at the path of a problem."""
    content = _decode(body)
    holder, step = _holder(content["payload"] if is_wrapped(body) else content, attr)
    holder[step] = value
    return _encode(content)


def _fewer(before: set[_Name], after: set[_Name] | None, removed: _Name) -> set[_Name] | None:
    """Return the problems after a correction, if it removes the problem and adds no other; None otherwise."""
    return after if after is not None and after <= before - {removed} else None


def _candidates(body: bytes, problem: Problem) -> Iterator[tuple[bytes, Suggestion]]:
    """Yield pairs of a body in which another value replaces the wrong value, and the suggestion of this value."""
    content = _decode(body)
    try:
        whole = content["payload"] if is_wrapped(body) else content
        holder, step = _holder(whole, problem.attr)
        wrong = holder[step]
    except (KeyError, IndexError, ValueError, TypeError):
        return
    if type(wrong) not in (str, int) or len(str(wrong)) > 512:
        return
    text = str(wrong).strip(_BLANKS)
    for remedy in _REMEDIES:
        if remedy.fields is None or step in remedy.fields:
            point = _holder(whole, problem.attr.rsplit(".", 2)[0])[0] if step == "melo_number" else holder
            for value in remedy.values(text, point):
                if value and value != wrong:
                    holder[step] = value
                    yield _encode(content), Suggestion(remedy.name, value, remedy.sentence)


def _holder(account: Any, attr: str) -> tuple[Any, str]:
    """Return the object that has the value at a path, and the last step of the path. Raises KeyError, IndexError, …"""
    *above, last = attr.split(".")
    for step in above:
        account = account[int(step)] if isinstance(account, list) else account[step]
    return account, last


def _phones(text: str, holder: Any) -> Iterator[str]:
    """Yield E.164 of a text with one number. Two numbers, or letters between digits, are not safe."""
    import phonenumbers  # imported here: `phonenumbers` is large, and most processes check no account

    if (match := _PHONE.match(text)) is None:
        return
    digits = _SEPARATORS.sub("", match.group(1))
    national = re.sub(r"^(?:\+|0*)49(?:0*)(?=[1-9])", "+49", digits)
    found = {
        phonenumbers.format_number(phonenumbers.parse(number, "DE"), phonenumbers.PhoneNumberFormat.E164)
        for number in (digits, national)
        if is_phone_number(number)
    }
    if len(found) == 1:
        yield found.pop()


def _ibans(text: str, holder: Any) -> Iterator[str]:
    yield re.sub(r"^IBAN(?=[A-Z]{2}[0-9])", "", re.sub(r"[\W_]", "", text).upper())


def _postcodes(text: str, holder: Any) -> Iterator[str]:
    """Yield five digits. A postcode of four digits in a German address has lost its leading zero."""
    if match := _POSTCODE.match(text):
        yield match.group(1).zfill(5)


def _market_locations(text: str, holder: Any) -> Iterator[str]:
    """Yield the digits of the value, or the number of the only metering location if MaLo-ID and MeLo-ID are swapped."""
    yield _SEPARATORS.sub("", text)
    match holder:
        case {"melos": [{"melo_number": str(other)}]} if is_metering_location_id(text) and is_market_location_id(other):
            yield other


def _metering_locations(text: str, holder: Any) -> Iterator[str]:
    yield _SEPARATORS.sub("", text).upper()
    match holder:
        case {"identifier": str(other)} if is_market_location_id(text) and is_metering_location_id(other):
            yield other


def _dates(text: str, holder: Any) -> Iterator[str]:
    """Yield the date if the order of day, month and year is certain. Dots are German; 03/04/2020 may be either."""
    found = set[str]()
    for form in _DATES:
        if match := form.match(text):
            try:
                found.add(date(int(match["year"]), int(match["month"]), int(match["day"])).isoformat())
            except ValueError:
                continue
    if len(found) == 1:
        yield found.pop()


def _trimmed(text: str, holder: Any) -> Iterator[str]:
    yield text
    yield text.upper()


_REMEDIES = (
    _Remedy(
        "phone",
        frozenset({"mobile", "landline"}),
        _phones,
        Sentence("The number in international form.", "Die Nummer in internationaler Schreibweise."),
    ),
    _Remedy(
        "iban",
        frozenset({"iban"}),
        _ibans,
        Sentence("The IBAN without blanks, in capitals.", "Die IBAN ohne Leerzeichen, in Großbuchstaben."),
    ),
    _Remedy(
        "postcode",
        frozenset({"billing_postcode", "supply_postcode"}),
        _postcodes,
        Sentence("The postcode with its leading zero.", "Die Postleitzahl mit führender Null."),
    ),
    _Remedy(
        "malo",
        frozenset({"identifier"}),
        _market_locations,
        Sentence(
            "The MaLo-ID: without separators, or the number in the place of the MeLo-ID.",
            "Die MaLo-ID: ohne Trennzeichen, oder die Nummer an der Stelle der MeLo-ID.",
        ),
    ),
    _Remedy(
        "melo",
        frozenset({"melo_number"}),
        _metering_locations,
        Sentence(
            "The MeLo-ID: in capitals, or the text in the place of the MaLo-ID.",
            "Die MeLo-ID: in Großbuchstaben, oder der Text an der Stelle der MaLo-ID.",
        ),
    ),
    _Remedy(
        "date",
        None,
        _dates,
        Sentence("The date as year, month and day.", "Das Datum als Jahr, Monat und Tag."),
    ),
    _Remedy(
        "blanks",
        None,
        _trimmed,
        Sentence(
            "The value without outer blanks, spelled as the field requires.",
            "Der Wert ohne Leerzeichen davor und danach, in der Schreibweise des Feldes.",
        ),
    ),
)
"""Remedies in the order in which they are tried."""
