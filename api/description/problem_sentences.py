"""What a problem that the log names as code@path says: the sentence of its rule, or the meaning of its code."""

import msgspec

from api.description.catalogue import CATALOGUE
from market import RULES
from schemas.base import Problem, code_and_path
from schemas.reading.places import documented_path, place_of
from schemas.sentence import Sentence, german_of
from schemas.status import AnyImportStatus

_OF_RULE = {
    (rule.code, place): rule.says
    for rule in reversed(RULES)
    for place in (rule.at, f"{rule.at}.{rule.field}".lstrip("."))
}
_OF_CODE = {entry.code: entry.sentence for entry in CATALOGUE}
_UNKNOWN = Sentence("The catalogue does not know this code.", "Der Katalog kennt diesen Code nicht.")


def told(name: str) -> Problem:
    """The problem that the log names as code@path, with its sentence and without values: the log has none. Pure."""
    code, attr = code_and_path(name)
    says = _OF_RULE.get((code, place_of(attr))) or _OF_CODE.get(code, _UNKNOWN)
    return Problem(documented_path(attr or "non_field_errors"), code, says)


def sentence_at(code: str, place: str) -> Sentence:
    """What a code says at a place, with [] for any item of an array. Pure."""
    return _OF_RULE.get((code, place)) or _OF_CODE.get(code, _UNKNOWN)


def error_sentence(code: str, stored: str) -> Sentence:
    """What the log says of a failed import; in German what its code means, with what stands after the colon. Pure."""
    meaning = german_of(_OF_CODE.get(code, _UNKNOWN)).partition(";")[0].rstrip(".")
    places = german_of(stored).partition(": ")[2]
    return Sentence(stored, f"{meaning}: {places}" if places else f"{meaning}.")


def with_sentence(status: AnyImportStatus) -> AnyImportStatus:
    """The status record, with a `latest_error` that can be told in both languages. Pure."""
    error = status.latest_error
    if error is None:
        return status
    detail = error_sentence(error.code, error.detail)
    return msgspec.structs.replace(status, latest_error=msgspec.structs.replace(error, detail=detail))
