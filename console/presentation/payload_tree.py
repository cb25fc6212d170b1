"""A payload as a tree of places, with the problems that stand at each; what is about persons is masked. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec

from redaction.masking import DOTS, masked_tree
from schemas.base import Problem

MAX_NODES = 3_000
"""Nodes of a page."""
_decode = msgspec.json.Decoder(float_hook=str).decode  # numbers as they were sent
_encode = msgspec.json.Encoder(decimal_format="number").encode


class PayloadPlace(msgspec.Struct, frozen=True, kw_only=True):
    """One place: its name, its dotted path, and its value, or the nodes below it."""

    name: str
    path: str
    value: str = ""
    is_masked: bool = False
    children: tuple["PayloadPlace", ...] = ()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    number_below: int = 0
    """Problems at places below."""

    @property
    def is_open(self) -> bool:
        """Whether it is shown unfolded from the start: the way to each problem is."""
        return bool(self.number_below)


class PayloadTree(msgspec.Struct, frozen=True):
    """The nodes of a payload, the problems whose place it does not have, and after which value the next page begins."""

    nodes: tuple[PayloadPlace, ...]
    elsewhere: tuple[Problem, ...]
    next_after: int | None


class _Building:
    """Values are numbered in their order. A page has so many, and the first one every place with a problem as well."""

    def __init__(self, errors: Sequence[Problem], warnings: Sequence[Problem], after: int) -> None:
        self.errors, self.warnings = _by_place(errors), _by_place(warnings)
        places = dict.fromkeys((*self.errors, *self.warnings)) if not after else {}
        self.on_the_way = {place[:length] for place in places for length in range(len(place) + 1)}
        self.below: dict[tuple[str, ...], list[str]] = {}
        for place in places:
            self.below.setdefault(place[:-1], []).append(place[-1])
        self.after, self.left = after, MAX_NODES
        self.number, self.last = 0, after
        self.next_after: int | None = None

    def nodes(self, value: Any, path: tuple[str, ...]) -> tuple[PayloadPlace, ...]:
        items: Sequence[tuple[str, Any]]
        items = list(value.items()) if isinstance(value, dict) else [(f"{n}", one) for n, one in enumerate(value)]
        named = [self._node(name, inner, (*path, name)) for name, inner in items]
        present = {name for name, _ in items} | {"non_field_errors"} if path in self.below else set()
        missing = [name for name in self.below.get(path, ()) if name not in present]
        absent = [self._leaf(name, "", (*path, name), is_masked=False) for name in missing]
        return (*(one for one in named if one is not None), *absent)

    def _node(self, name: str, value: Any, path: tuple[str, ...]) -> PayloadPlace | None:
        """None for what is not on this page."""
        if self.next_after is not None and path not in self.on_the_way:
            return None
        if not isinstance(value, dict | list) or not value:
            if not self._is_here() and path not in self.on_the_way:
                return None
            shown = shown_value(value)
            return self._leaf(name, shown, path, is_masked=DOTS in shown)
        children = self.nodes(value, path)
        if not children:
            return None
        self.left -= 1
        errors, warnings = self._take(path)
        below = sum(child.number_below + len(child.problems) + len(child.warnings) for child in children)
        return PayloadPlace(
            name=name, path=".".join(path), children=children, problems=errors, warnings=warnings, number_below=below
        )

    def _is_here(self) -> bool:
        """Whether the next value stands on this page."""
        self.number += 1
        if self.number <= self.after or self.next_after is not None:
            return False
        if self.left <= 0:
            self.next_after = self.last
            return False
        self.left -= 1
        self.last = self.number
        return True

    def _leaf(self, name: str, value: str, path: tuple[str, ...], *, is_masked: bool) -> PayloadPlace:
        errors, warnings = self._take(path)
        return PayloadPlace(
            name=name, path=".".join(path), value=value, is_masked=is_masked, problems=errors, warnings=warnings
        )

    def _take(self, path: tuple[str, ...]) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
        """The problems of a place, and those of it as a whole."""
        whole = (*path, "non_field_errors")
        errors = (*self.errors.pop(path, ()), *self.errors.pop(whole, ()))
        return errors, (*self.warnings.pop(path, ()), *self.warnings.pop(whole, ()))


def payload_tree(
    body: bytes, errors: Sequence[Problem], warnings: Sequence[Problem], *, is_clear: bool, after: int = 0
) -> PayloadTree:
    """The payload's tree; with `is_clear`, persons are not masked. A body that is no JSON object has no nodes.

    Of a large one a page: so many values `after` as many. Problems without a place stand on the first.
    """
    building = _Building(errors, warnings, after)
    try:
        account = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        account = None
    if not isinstance(account, dict):
        return PayloadTree((), (*errors, *warnings), None)
    if isinstance(account.get("payload"), dict):
        account = account["payload"]
    nodes = building.nodes(account if is_clear else masked_tree(account), ())
    left = [one for place in (*building.errors.values(), *building.warnings.values()) for one in place]
    return PayloadTree(nodes, () if after else tuple(left), building.next_after)


def _by_place(problems: Sequence[Problem]) -> dict[tuple[str, ...], tuple[Problem, ...]]:
    places: dict[tuple[str, ...], tuple[Problem, ...]] = {}
    for problem in problems:
        path = tuple(problem.attr.split("."))
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
