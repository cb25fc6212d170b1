"""A payload as a tree of places, with the problems that stand at each; what is about persons is masked. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from redaction.masking import DOTS, masked_tree
from schemas.base import Problem

MAX_VALUES = 3_000
"""Values on a page. Places with problems stand on the first one as well."""
_WHOLE = "non_field_errors"
_decode = msgspec.json.Decoder(float_hook=str).decode  # numbers as they were sent
_encode = msgspec.json.Encoder(decimal_format="number").encode
Path = tuple[str, ...]


class PayloadPlace(msgspec.Struct, kw_only=True):
    """One place: its name, and its value, or the places below it."""

    name: str
    path: str
    value: str = ""
    children: list["PayloadPlace"] = []
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    number_below: int = 0
    """Problems at places below."""

    @property
    def is_open(self) -> bool:
        """Return True if it is unfolded from the start: the way to each problem is."""
        return bool(self.number_below)

    @property
    def is_masked(self) -> bool:
        return DOTS in self.value


class PayloadTree(msgspec.Struct, frozen=True):
    """The places of a payload, the problems whose place it does not have, and the value before the next page."""

    nodes: list[PayloadPlace]
    elsewhere: tuple[Problem, ...]
    next_after: int | None


def payload_tree(
    body: bytes, errors: Sequence[Problem], warnings: Sequence[Problem], *, is_clear: bool, after: int = 0
) -> PayloadTree:
    """The payload's tree; with `is_clear`, persons are not masked. A body that is no JSON object has no places.

    A large one has pages: `after` is the number of values before this one. Problems without a place stand on the first.
    """
    try:
        account = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        account = None
    if not isinstance(account, dict):
        return PayloadTree([], (*errors, *warnings), None)
    if isinstance(account.get("payload"), dict):
        account = account["payload"]
    values = dict(_values(account if is_clear else masked_tree(account), ()))
    at_errors, at_warnings = _by_place(errors), _by_place(warnings)
    on_page = dict.fromkeys(list(values)[after : after + MAX_VALUES])
    objects = {path[:length] for path in values for length in range(len(path))}
    with_problems = (*at_errors, *at_warnings) if not after else ()
    beyond = [path for path in with_problems if path in values and path not in on_page]
    absent = [path for path in with_problems if path not in values and path not in objects and path[:-1] in objects]
    root = PayloadPlace(name="", path="")
    known: dict[Path, PayloadPlace] = {(): root}
    for path in (*on_page, *beyond, *absent):
        _add(known, path, values.get(path, ""))
    for path, place in known.items():
        place.problems, place.warnings = at_errors.pop(path, ()), at_warnings.pop(path, ())
    _count(root)
    left = [problem for found in (*at_errors.values(), *at_warnings.values()) for problem in found]
    elsewhere = (*root.problems, *root.warnings, *left)
    more = after + MAX_VALUES if len(values) > after + MAX_VALUES else None
    return PayloadTree(root.children, () if after else elsewhere, more)


def _values(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Every value with its path, in the order of the payload; an empty object or list is a value."""
    if not isinstance(value, dict | list) or not value:
        yield path, shown_value(value)
        return
    for name, below in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _values(below, (*path, str(name)))


def _add(known: dict[Path, PayloadPlace], path: Path, value: str) -> None:
    """Add a place, and those above it that are not there yet."""
    for length in range(1, len(path) + 1):
        here = path[:length]
        if here not in known:
            known[here] = PayloadPlace(name=here[-1], path=".".join(here))
            known[here[:-1]].children.append(known[here])
    known[path].value = value


def _count(place: PayloadPlace) -> int:
    """Set the numbers of problems below, and return that of problems here and below."""
    place.number_below = sum(map(_count, place.children))
    return place.number_below + len(place.problems) + len(place.warnings)


def _by_place(problems: Sequence[Problem]) -> dict[Path, tuple[Problem, ...]]:
    """Problems by path; one about an object as a whole stands at the object."""
    places: dict[Path, tuple[Problem, ...]] = {}
    for problem in problems:
        path = tuple(problem.attr.removesuffix(f".{_WHOLE}").split("."))
        path = () if path == (_WHOLE,) else path
        places[path] = (*places.get(path, ()), problem)
    return places


def shown_value(value: Any) -> str:
    """A value of JSON as a page shows it."""
    match value:
        case str():
            return value
        case bool() | None | dict() | list():
            return _encode(value).decode()
        case _:
            return str(value)
