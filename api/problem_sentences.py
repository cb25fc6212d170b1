"""What a problem that the log names as code@path says: the sentence of its rule, or the meaning of its code."""

from api.catalogue import CATALOGUE
from market import RULES
from schemas.base import Problem, code_and_path
from schemas.places import documented_path, place_of

_OF_RULE = {
    (rule.code, place): rule.says
    for rule in reversed(RULES)
    for place in (rule.at, f"{rule.at}.{rule.field}".lstrip("."))
}
_OF_CODE = {entry.code: entry.meaning for entry in CATALOGUE}


def told(name: str) -> Problem:
    """The problem behind code@path. No values: the log has none. Pure."""
    code, attr = code_and_path(name)
    says = _OF_RULE.get((code, place_of(attr))) or _OF_CODE.get(code, "The catalogue does not know this code.")
    return Problem(documented_path(attr or "non_field_errors"), code, says)
