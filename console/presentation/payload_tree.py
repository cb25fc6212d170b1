"""A payload as a tree of its fields, each with its problems; personal data is masked. Pure."""

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec
from msgspec import UNSET

from console.presentation.texts import N_
from projections.views.account_search import folded
from redaction.masking import DOTS, is_harmless, masked_tree
from schemas.base import Problem

MAX_VALUES = 3_000
"""Values per page. The first page also has all fields with problems."""
_WHOLE = "non_field_errors"
_WORD = re.compile(r"\w{3,}")
_DIGIT = re.compile(r"\d")
_LEAST_NUMBER = 4
_decode = msgspec.json.Decoder(float_hook=str).decode  # numbers keep the text that was sent
_encode = msgspec.json.Encoder(decimal_format="number").encode
Path = tuple[str, ...]


class PayloadNode(msgspec.Struct, kw_only=True):
    """A field or element: its name, and either its value or its children."""

    name: str
    path: str
    value: str = ""
    children: list["PayloadNode"] = []
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    number_below: int = 0
    """Number of problems of all descendants."""
    has_errors_below: bool = False
    """True if one of these problems is an error, not a warning."""

    @property
    def is_open(self) -> bool:
        """Return True if a descendant has a problem, so that the page shows the children unfolded."""
        return bool(self.number_below)

    @property
    def is_masked(self) -> bool:
        return DOTS in self.value


class PayloadTree(msgspec.Struct, frozen=True):
    """Root fields, problems whose field is not in the payload, and the number of values before the next page."""

    nodes: list[PayloadNode]
    elsewhere: tuple[Problem, ...]
    next_after: int | None


def payload_tree(
    body: bytes,
    errors: Sequence[Problem],
    warnings: Sequence[Problem],
    *,
    is_clear: bool,
    shown: Collection[str] = (),
    after: int = 0,
) -> PayloadTree:
    """Build the tree of a payload. A body that is not a JSON object gives an empty tree.

    `is_clear` turns masking off; fields at the paths of `shown` are never masked. A large payload has several pages:
    `after` is the number of values before this page. Problems whose field is missing are on the first page.
    """
    account = _account_in(body)
    account = account if is_clear else masked_tree(account, shown)
    at_errors, at_warnings = _by_place(errors), _by_place(warnings)
    page = list(islice(_values(account, ()), after, after + MAX_VALUES + 1))
    more = after + MAX_VALUES if len(page) > MAX_VALUES else None
    root = PayloadNode(name="", path="")
    known: dict[Path, PayloadNode] = {(): root}
    for path, value in page[:MAX_VALUES]:
        _add(known, path, shown_value(value))
    for path in () if after else dict.fromkeys((*at_errors, *at_warnings)):
        value = _value_at(account, path)
        if path not in known and not _is_parent(value):
            if value is not UNSET:
                _add(known, path, shown_value(value))
            elif _is_parent(_value_at(account, path[:-1])):
                _add(known, path, "")
    for path, node in known.items():
        node.problems, node.warnings = at_errors.pop(path, ()), at_warnings.pop(path, ())
    _count(root)
    left = [problem for found in (*at_errors.values(), *at_warnings.values()) for problem in found]
    elsewhere = (*root.problems, *root.warnings, *left)
    return PayloadTree(root.children, () if after else elsewhere, more)


def values_at(
    body: bytes, problems: Sequence[Problem], *, is_clear: bool, shown: Collection[str] = ()
) -> dict[str, str]:
    """Return the value at the place of each problem with a value, masked like the tree."""
    account = _account_in(body)
    account = account if is_clear else masked_tree(account, shown)
    found = {problem.attr: _value_at(account, tuple(problem.attr.split("."))) for problem in problems}
    return {attr: shown_value(value) for attr, value in found.items() if value is not UNSET and not _is_parent(value)}


PERSON: dict[str, tuple[str, tuple[str, ...]]] = {
    N_("Name"): ("customers", ("given_name", "family_name")),
    N_("Address"): ("", (*(f"billing_address{number}" for number in range(1, 5)), "billing_postcode")),
    N_("E-mail address"): ("customers", ("email",)),
    N_("Telephone"): ("customers", ("mobile", "landline")),
    N_("IBAN"): ("payment_instructions.bank_account", ("iban",)),
    N_("Market location"): ("supply_addresses.supply_points", ("identifier",)),
    N_("Meter"): ("supply_addresses.supply_points.melos.meters", ("meter_number",)),
}
"""Objects and their fields that identify a person, by heading."""
MOST_OF_ONE = 3
"""Entries shown of each list."""


def person_in(body: bytes, *, is_clear: bool) -> list[tuple[str, str]]:
    """Return headings and values of the fields that identify the person of a payload, masked like the tree."""
    account = _account_in(body)
    account = account if is_clear else masked_tree(account)
    person = []
    for heading, (place, names) in PERSON.items():
        values = [[found.get(name) for name in names] for found in _objects(account, place.split(".") if place else [])]
        texts = [" ".join(value for value in fields if isinstance(value, str) and value) for fields in values]
        if any(texts):
            person.append((heading, ", ".join(filter(None, texts))))
    return person


def _objects(value: Any, steps: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the objects at a path, including objects in lists on the path."""
    if isinstance(value, list):
        for entry in value[:MOST_OF_ONE]:
            yield from _objects(entry, steps)
    elif isinstance(value, dict) and steps:
        yield from _objects(value.get(steps[0]), steps[1:])
    elif isinstance(value, dict):
        yield value


def _account_in(body: bytes) -> dict[str, Any]:
    """Return the account in a payload; an empty account for a body that is not a JSON object."""
    try:
        account = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    if not isinstance(account, dict):
        return {}
    return account["payload"] if isinstance(account.get("payload"), dict) else account


def naming_person(texts: Collection[str], body: bytes) -> set[str]:
    """Return the texts that contain a masked word or number of the payload; all texts if it cannot be read."""
    try:
        account = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return set(texts)
    by_word: dict[str, set[str]] = {}
    for text in texts:
        for word in _words(text):
            by_word.setdefault(word, set()).add(text)
    joined, named = {text: _joined(text) for text in texts}, set[str]()
    for path, value in _values(account, ()):
        if not path or is_harmless(path):
            continue
        shown = shown_value(value)
        named.update(*(by_word.get(word, ()) for word in _words(shown)))
        number = _joined(shown) if _DIGIT.search(shown) else ""
        if len(number) > _LEAST_NUMBER:
            named.update(text for text in joined if number in joined[text])
    return named


def _words(text: str) -> set[str]:
    """Return the words of a text that may identify a person. Shorter words occur in too many texts."""
    return {folded(word) for word in _WORD.findall(text)}


def _joined(text: str) -> str:
    """Return a text without blanks and signs, as numbers are compared."""
    return re.sub(r"\W", "", text).casefold()


def _is_parent(value: Any) -> bool:
    """Return True for an object or list with items. An empty object or list counts as a value."""
    return isinstance(value, dict | list) and bool(value)


def _value_at(value: Any, path: Path) -> Any:
    """Return the value at a path, or UNSET."""
    for step in path:
        if isinstance(value, dict):
            value = value.get(step, UNSET)
        elif isinstance(value, list) and step.isdecimal() and str(int(step)) == step and int(step) < len(value):
            value = value[int(step)]
        else:
            return UNSET
    return value


def _values(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Yield every value with its path, in the order of the payload."""
    if not _is_parent(value):
        yield path, value
        return
    for name, below in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _values(below, (*path, str(name)))


def _add(known: dict[Path, PayloadNode], path: Path, value: str) -> None:
    """Add a field and its missing ancestors."""
    for length in range(1, len(path) + 1):
        prefix = path[:length]
        if prefix not in known:
            known[prefix] = PayloadNode(name=prefix[-1], path=".".join(prefix))
            known[prefix[:-1]].children.append(known[prefix])
    known[path].value = value


def _count(node: PayloadNode) -> int:
    """Set `number_below` of the tree, and return the number of problems of this field and its descendants."""
    node.number_below = sum(map(_count, node.children))
    node.has_errors_below = any(child.problems or child.has_errors_below for child in node.children)
    return node.number_below + len(node.problems) + len(node.warnings)


def _by_place(problems: Sequence[Problem]) -> dict[Path, tuple[Problem, ...]]:
    """Group problems by path. A problem about a whole object belongs to the object's path."""
    by_path: dict[Path, tuple[Problem, ...]] = {}
    for problem in problems:
        path = tuple(problem.attr.removesuffix(f".{_WHOLE}").split("."))
        path = () if path == (_WHOLE,) else path
        by_path[path] = (*by_path.get(path, ()), problem)
    return by_path


def shown_value(value: Any) -> str:
    """Return a JSON value as text for a page."""
    match value:
        case str():
            return value
        case bool() | None | dict() | list():
            return _encode(value).decode()
        case _:
            return str(value)
