"""A rule as a row, and the one walk that applies a table of rows to a value.

`at` names the place: fields joined by dots, `[]` for the items of an array, "" for the whole. An absent value
breaks nothing. A check knows one value and no path; the walk knows the path and no rule.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import UNSET

from schemas.base import Problem


class Severity(StrEnum):
    """An error refuses the account. A warning is kept in the history, and is an error for strict suppliers."""

    ERROR = "error"
    WARNING = "warning"


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule of the market. `code` is permanent: clients switch on it. `says` never repeats the value."""

    code: str
    at: str
    holds: Callable[..., bool]
    says: str
    source: str
    severity: Severity = Severity.ERROR
    field: str = "non_field_errors"
    """Where a rule over several fields is reported, below its place; rules over one value use the value's own path."""
    needs_now: bool = False
    """The check takes the present moment as its second argument."""


class Breach(msgspec.Struct, frozen=True):
    """A rule that was broken, and where."""

    problem: Problem
    severity: Severity


class _Place:
    """What there is to check at one place, and the places below it."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.below: dict[tuple[str, bool], _Place] = {}
        self.checks: tuple[tuple[Callable[..., bool], bool, Rule], ...] = ()
        self.leaves: tuple[tuple[str, tuple[tuple[Callable[..., bool], bool, Rule], ...]], ...] = ()
        self.steps: tuple[tuple[str, bool, _Place], ...] = ()

    def settle(self) -> None:
        """Lay out what the walk needs: own checks, scalar fields to check in passing, places to descend into."""
        for place in self.below.values():
            place.settle()
        self.checks = tuple((rule.holds, rule.needs_now, rule) for rule in self.rules)
        self.leaves = tuple(
            (name, place.checks) for (name, many), place in self.below.items() if not many and not place.below
        )
        self.steps = tuple((name, many, place) for (name, many), place in self.below.items() if many or place.below)


Path = tuple["Path", str | int] | None


class RuleBook:
    """Rules arranged by place, so that one walk over a value applies them all."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._root = _Place()
        for rule in rules:
            place = self._root
            for step in rule.at.split(".") if rule.at else ():
                many = step.endswith("[]")
                place = place.below.setdefault((step.removesuffix("[]"), many), _Place())
            place.rules.append(rule)
        self._root.settle()

    def breaches(self, value: Any, now: datetime) -> list[Breach]:
        found: list[Breach] = []
        self._visit(self._root, value, None, now, found)
        return found

    def _visit(self, place: _Place, value: Any, path: Path, now: datetime, found: list[Breach]) -> None:
        for holds, needs_now, rule in place.checks:
            if not (holds(value, now) if needs_now else holds(value)):
                found.append(_breach(path, value, rule))
        for name, checks in place.leaves:
            child = getattr(value, name)
            if child is None or child is UNSET or not child:
                continue
            for holds, needs_now, rule in checks:
                if not (holds(child, now) if needs_now else holds(child)):
                    found.append(_breach((path, name), child, rule))
        for name, many, below in place.steps:
            child = getattr(value, name)
            if not child or child is UNSET:
                continue
            if many:
                for index, item in enumerate(child):
                    self._visit(below, item, ((path, name), index), now, found)
            else:
                self._visit(below, child, (path, name), now, found)


def _breach(path: Path, value: Any, rule: Rule) -> Breach:
    return Breach(Problem(_attr(path, value, rule), rule.code, rule.says), rule.severity)


def _attr(path: Path, value: Any, rule: Rule) -> str:
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(str(step))
    steps.reverse()
    if isinstance(value, msgspec.Struct | tuple):
        steps.append(rule.field)
    return ".".join(steps)
