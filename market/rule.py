"""Rules as rows, and the pass that applies a table of rules to a value.

`at` is the path of the checked value: fields joined by dots, `[]` for the items of an array, "" for the whole. An
absent value breaks no rule. A check gets one value without its path.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from functools import cached_property, partial
from itertools import repeat
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from schemas.base import Problem, Wire
from schemas.reading.field_names import named
from schemas.reading.problems import MAX_PROBLEMS, UNKNOWN_FIELD, is_truncated, left_out
from schemas.reading.shape import derived_checks, is_in_calendar, is_not_blank
from schemas.reading.work import MAX_RULES_S, TooMuchWork, Work
from schemas.sentence import Sentence

_LOOK_EVERY = 64
"""Items of an account's arrays between two checks of the time limit."""
_MAX_STEPS = 16
"""Greatest depth of a rule's path. Deeper problems concern no rule."""

CheckFunction = TypeVar("CheckFunction", bound=Callable[..., object])


class Severity(StrEnum):
    """An error refuses the account. A warning is kept in the history; for strict suppliers it is an error."""

    ERROR = "error"
    WARNING = "warning"


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Rule of the market. `code` is permanent: clients switch on it. `says` never repeats the value."""

    code: str
    at: str
    holds: Callable[..., object]
    says: Sentence
    source: str
    severity: Severity = Severity.ERROR
    field: str = "non_field_errors"
    """Field below `at` that the problem names, for rules over several fields. Rules over one value name that value."""
    needs_now: bool = False
    """True if the check takes the present moment as its second argument."""

    @property
    def reads(self) -> tuple[tuple[str, ...], ...] | None:
        """Paths below `at` that the check reads, as steps; None if they are not declared."""
        said: tuple[str, ...] | None = getattr(self.holds, "reads", None)
        return (
            None if said is None else tuple(tuple(place.replace("[]", ".[]").strip(".").split(".")) for place in said)
        )


class Breach(msgspec.Struct, frozen=True):
    """Broken rule and the path of the value."""

    problem: Problem
    severity: Severity


def reading(*places: str) -> Callable[[CheckFunction], CheckFunction]:
    """Declare the paths below its own that a check reads, so that it also runs if other paths have problems."""

    def mark(check: CheckFunction) -> CheckFunction:
        check.__dict__["reads"] = places
        return check

    return mark


def inlined(source: str) -> Callable[[CheckFunction], CheckFunction]:
    """Declare an expression that a rule book uses instead of calling the check, which saves most calls.

    `{v}` is the value, `now` the moment, `{holds}` the check itself.
    """

    def mark(check: CheckFunction) -> CheckFunction:
        check.__dict__["inlined"] = source
        return check

    return mark


def error(
    code: str,
    at: str,
    holds: Callable[..., object],
    english: str,
    german: str,
    *,
    source: str,
    field: str = "non_field_errors",
    needs_now: bool = False,
    severity: Severity = Severity.ERROR,
) -> Rule:
    """Return a rule that refuses the account. Both sentences say what must hold."""
    says = Sentence(english, german)
    return Rule(
        code=code, at=at, holds=holds, says=says, source=source, severity=severity, field=field, needs_now=needs_now
    )


warning = partial(error, severity=Severity.WARNING)
"""Function that returns a rule that warns, and refuses the account for strict suppliers only."""


class RuleBook:
    """Rules arranged by path and compiled into two functions, which apply them in one pass over a value.

    One returns whether all rules hold, which is the common case; the other reports the broken rules and their paths.
    They are generated as source, since a walk over a tree of rules spends most of its time on the tree.
    """

    def __init__(self, rules: Iterable[Rule], wire_type: type[Wire] | None = None) -> None:
        self._wire_type = wire_type
        root = _Place()
        for rule in rules:
            place = root
            for step in rule.at.split(".") if rule.at else ():
                many = step.endswith("[]")
                place = place.below.setdefault((step.removesuffix("[]"), many), _Place())
            place.rules.append(rule)
        self._arrays = tuple(name for name, many in root.below if many)
        self._root = root

    @classmethod
    def of(cls, wire_type: type[Wire], rules: Iterable[Rule]) -> "RuleBook":
        """Return a book of these rules and of the checks that the shape needs after decoding."""
        derived = (
            Rule(code=check.code, at=check.at, holds=check.holds, says=check.says, source="ours: the shape of the wire")
            for check in derived_checks(wire_type)
        )
        return cls((*derived, *rules), wire_type)

    def breaches(
        self, value: Any, now: datetime, besides: Sequence[Problem] = (), *, within_s: float = MAX_RULES_S
    ) -> list[Breach]:
        """Return every rule that the value breaks, except rules that read a path with a problem in `besides`.

        Undocumented fields are read by no rule, so they skip none. No rule runs if `besides` fills the answer already.
        Each severity has at most as many breaches as an answer lists, then a `LeftOut`. Raises TooMuchWork if checking
        takes longer and the answer is not full.
        """
        if is_truncated(besides) or (not besides and self._holds(value, now)):
            return []
        breaches: list[Breach] = []
        more = _NONE_YET.copy()
        go_on = Work(within_s).go_on if self._looks_at_clock(value) else _never

        def broken(rule: Rule, value: Any, *path: str | int) -> None:
            """Note a broken rule. The generated function passes the rule and the path."""
            more[rule.severity] += 1
            if more[rule.severity] > 0:
                return
            steps = [*map(str, (*path, rule.field) if isinstance(value, msgspec.Struct | tuple) else path)]
            says = named(rule.says, self._wire_type, steps) if self._wire_type else rule.says
            breaches.append(Breach(Problem(".".join(steps), rule.code, says), rule.severity))

        try:
            self._apply(value, now, broken, go_on, _sound_places(besides) if besides else _always)
        except TooMuchWork:
            if more[Severity.ERROR] <= 0:
                raise
        if breaches:
            breaches.extend([Breach(left_out(number), kind) for kind, number in more.items() if number > 0])
        return breaches

    @cached_property
    def _holds(self) -> Callable[[Any, datetime], bool]:
        """Function that returns True if a small value breaks no rule.

        Compiled at first use: most verbs of the command line check no account.
        """
        names: dict[str, Any] = {"UNSET": UNSET}
        lines = ["def holds(v0, now):", *_unbroken(self._root, 0, names), "    return True"]
        return _function("holds", lines, names)

    @cached_property
    def _apply(self) -> Callable[..., None]:
        return _compiled(self._root)

    def _looks_at_clock(self, value: Any) -> bool:
        """Return True if an array of the value is long enough to check the time limit, which is a system call."""
        return max(map(len, map(getattr, repeat(value), self._arrays)), default=0) >= _LOOK_EVERY


_NONE_YET = dict.fromkeys(Severity, -MAX_PROBLEMS)


def _never() -> None:
    """Do nothing: small values have no time limit."""


def _always(*place: object) -> bool:
    """Return True: every path is valid in a value without shape errors."""
    return True


class _Place:
    """Rules at one path, and the fields below it."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.below: dict[tuple[str, bool], _Place] = {}


def _sound_places(problems: Sequence[Problem]) -> Callable[..., bool]:
    """Return a function that returns whether a rule can run at a path.

    It can if no path above it, and no path that it reads, has a problem.
    """
    bad: set[tuple[str, ...]] = set()
    above: set[tuple[str, ...]] = set()
    below: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
    for problem in problems:
        if problem.code == UNKNOWN_FIELD:
            continue
        path = tuple(problem.attr.removesuffix("non_field_errors").strip(".").split("."))[:_MAX_STEPS]
        path = path if path != ("",) else ()
        bad.add(path)
        above.update(path[:length] for length in range(len(path)))
        kinds = tuple("[]" if step.isdigit() else step for step in path)
        below.update((path[:length], kinds[length:]) for length in range(len(path)))

    def is_sound(reads: tuple[tuple[str, ...], ...] | None, *steps: str | int) -> bool:
        path = tuple(map(str, steps))
        if any(path[:length] in bad for length in range(len(path) + 1)):
            return False
        if reads is None:
            return path not in above
        return not any((path, place[:length]) in below for place in reads for length in range(1, len(place) + 1))

    return is_sound


def _compiled(root: _Place) -> Callable[..., None]:
    names: dict[str, Any] = {"UNSET": UNSET}
    lines = ["def apply(v0, now, broken, go_on, is_sound):"]
    _write_place(root, 0, (), lines, names)
    return _function("apply", lines, names)


def _function(name: str, lines: Iterable[str], names: dict[str, Any]) -> Callable[..., Any]:
    exec("\n".join(lines), names)  # noqa: S102 - our own source, from the rules' paths and nothing else
    return names[name]  # type: ignore[no-any-return]


def _unbroken(place: _Place, depth: int, names: dict[str, Any]) -> Iterator[str]:
    """Yield lines that return False if `v<depth>` or a value below it breaks a rule, or if an array is long."""
    indent, here, inner = "    " * (depth + 1), f"v{depth}", f"v{depth + 1}"
    for rule in place.rules:
        holds = f"holds{len(names)}"
        names[holds] = rule.holds
        yield f"{indent}if not {_asked(rule, holds, here)}: return False"
    for name in dict.fromkeys(name for name, _ in place.below):
        yield f"{indent}if {inner} := {here}.{name}:"  # UNSET is false, as all that is absent and every empty array
        if depth == 0 and (name, True) in place.below:
            yield f"{indent}    if len({inner}) >= {_LOOK_EVERY}: return False"
        if (whole := place.below.get((name, False))) is not None:
            yield from _unbroken(whole, depth + 1, names)
        if (each := place.below.get((name, True))) is not None:
            yield f"{indent}    for {inner} in {inner}:"
            yield from (f"    {line}" for line in _unbroken(each, depth + 1, names))


def _write_place(place: _Place, depth: int, path: tuple[str, ...], lines: list[str], names: dict[str, Any]) -> None:
    """Append lines that check `v<depth>` and the values below it. `path` consists of Python expressions."""
    indent, here = "    " * (depth + 1), f"v{depth}"
    for rule in place.rules:
        number = len(names)
        names[f"holds{number}"], names[f"rule{number}"], names[f"reads{number}"] = rule.holds, rule, rule.reads
        sound = f"is_sound({', '.join((f'reads{number}', *path))})"
        lines.append(f"{indent}if {sound} and not {_asked(rule, f'holds{number}', here)}:")
        lines.append(f"{indent}    broken({', '.join((f'rule{number}', here, *path))})")
    for (name, many), below in place.below.items():
        inner = f"v{depth + 1}"
        steps = (*path, repr(name))
        lines.append(f"{indent}{inner} = {here}.{name}")
        lines.append(f"{indent}if {inner}:")  # UNSET is false, as all that is absent and every empty array
        if many:
            lines.append(f"{indent}    for i{depth}, {inner} in enumerate({inner}):")
            steps = (*steps, f"i{depth}")
            if depth == 0:
                lines.append(f"{indent}        if i0 % {_LOOK_EVERY} == {_LOOK_EVERY - 1}: go_on()")
            body: list[str] = []
            _write_place(below, depth + 1, steps, body, names)
            lines.extend(f"    {line}" for line in body)
        else:
            _write_place(below, depth + 1, steps, lines, names)


_INLINED: dict[Any, str] = {is_not_blank: "{v}.strip()", is_in_calendar: "1 < {v}.year < 9999 or {holds}({v})"}
"""Checks of the shape, as expressions."""


def _asked(rule: Rule, holds: str, here: str) -> str:
    """Return the rule's check of a variable, as an expression."""
    source: str | None = getattr(rule.holds, "inlined", None) or _INLINED.get(rule.holds)
    if source is not None:
        return f"({source.format(v=here, holds=holds)})"
    return f"{holds}({here}, now)" if rule.needs_now else f"{holds}({here})"
