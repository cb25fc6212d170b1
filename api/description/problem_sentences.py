"""Sentences for problems that the log stores as code@path: from the rule of a problem, or else from the meaning of its
code.
"""

import msgspec

from api.description.catalogue import CATALOGUE
from market import RULES
from schemas.account import Account
from schemas.base import Problem, code_and_path
from schemas.reading.documented_paths import documented_path, path_pattern
from schemas.reading.field_names import named
from schemas.sentence import Sentence, german_of
from schemas.status import AnyImportStatus

_OF_RULE = {
    (rule.code, place): rule.says
    for rule in reversed(RULES)
    for place in (rule.at, f"{rule.at}.{rule.field}".lstrip("."))
}
_OF_CODE = {entry.code: entry.sentence for entry in CATALOGUE}
_UNKNOWN = Sentence("The catalogue does not know this code.", "Der Katalog kennt diesen Code nicht.")


def problem_of(name: str) -> Problem:
    """Return the problem for a code@path of the log, with its sentence and without values. Pure."""
    code, attr = code_and_path(name)
    sentence = _OF_RULE.get((code, path_pattern(attr))) or named(_OF_CODE.get(code, _UNKNOWN), Account, attr.split("."))
    return Problem(documented_path(attr or "non_field_errors"), code, sentence)


def sentence_at(code: str, path: str) -> Sentence:
    """Return the sentence of a code at a path, with [] for items of arrays. Pure."""
    steps = path.replace("[]", ".0").split(".")
    return _OF_RULE.get((code, path)) or named(_OF_CODE.get(code, _UNKNOWN), Account, steps)


def error_sentence(code: str, stored: str) -> Sentence:
    """Return the sentence of a failed import. In German: the meaning of its code and the stored places. Pure."""
    meaning = german_of(_OF_CODE.get(code, _UNKNOWN)).partition(";")[0].rstrip(".")
    places = german_of(stored).partition(": ")[2]
    return Sentence(stored, f"{meaning}: {places}" if places else f"{meaning}.")


def with_sentence(status: AnyImportStatus) -> AnyImportStatus:
    """Return the status record with the sentence of `latest_error` in both languages. Pure."""
    error = status.latest_error
    if error is None:
        return status
    detail = error_sentence(error.code, error.detail)
    return msgspec.structs.replace(status, latest_error=msgspec.structs.replace(error, detail=detail))
