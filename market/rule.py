"""Rules as rows, and the pass that applies a table of rules to a value.

`at` is the path of the checked value: fields joined by dots, `[]` for the items of an array, "" for the whole body. An
absent value breaks no rule. A check function gets a value without its path.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from functools import cached_property, partial
from itertools import repeat
from typing import Any, TypeVar

import msgspec

from schemas.base import Problem, Wire
from schemas.reading.field_names import named
from schemas.reading.problems import MAX_PROBLEMS, UNKNOWN_FIELD, is_truncated, left_out
from schemas.reading.shape import derived_checks, is_in_calendar, is_not_blank
from schemas.reading.work import MAX_RULES_S, TooMuchWork, Work
from schemas.sentence import Sentence

_ITEMS_PER_CHECK = 64
"""Items of an account's arrays between two checks of the time limit."""
_MAX_STEPS = 16
"""Steps of a rule's path. Paths of problems are compared up to this depth."""

CheckFunction = TypeVar("CheckFunction", bound=Callable[..., object])


class Severity(StrEnum):
    """An error refuses the account. A warning is kept in the history; for strict suppliers it is an error."""

    ERROR = "error"
    WARNING = "warning"


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Rule of the market. `code` is permanent: clients switch on it.

    `holds` is the check: it returns a false value if the rule is broken. `says` is the sentence about what must hold,
    without the value.
    """

    code: str
    at: str
    holds: Callable[..., object]
    says: Sentence
    source: str
    severity: Severity = Severity.ERROR
    field: str = "non_field_errors"
    """Field below `at` that the problem of a rule over several fields names. A rule over one value names its value."""
    needs_now: bool = False
    """True if the check takes the present moment as its second argument."""

    @property
    def reads(self) -> tuple[tuple[str, ...], ...] | None:
        """Paths below `at` that the check reads, as steps; None if `reading` did not declare the paths."""
        paths: tuple[str, ...] | None = getattr(self.holds, "reads", None)
        return (
            None if paths is None else tuple(tuple(path.replace("[]", ".[]").strip(".").split(".")) for path in paths)
        )


class Breach(msgspec.Struct, frozen=True):
    """Broken rule and the path of the value."""

    problem: Problem
    severity: Severity


def reading(*paths: str) -> Callable[[CheckFunction], CheckFunction]:
    """Declare the paths that a check reads, relative to `at`. With problems at other paths, the check still runs."""

    def mark(check: CheckFunction) -> CheckFunction:
        check.__dict__["reads"] = paths
        return check

    return mark


def inlined(source: str) -> Callable[[CheckFunction], CheckFunction]:
    """Declare a Python expression that a rule book writes into its function instead of a call of the check.

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
    """Return a rule that refuses the account. `english` and `german` say what must hold."""
    says = Sentence(english, german)
    return Rule(
        code=code, at=at, holds=holds, says=says, source=source, severity=severity, field=field, needs_now=needs_now
    )


warning = partial(error, severity=Severity.WARNING)
"""Return a rule that warns, and refuses the account only for strict suppliers."""


class RuleBook:
    """Rules sorted by path and compiled into two functions, which apply all rules in one pass over a value.

    The first function returns whether all rules hold, which is the common case; the second function reports the broken
    rules and their paths. Both functions are generated as source, since a walk over a tree of rules spends most of its
    time on the tree.
    """

    def __init__(self, rules: Iterable[Rule], wire_type: type[Wire] | None = None) -> None:
        self._wire_type = wire_type
        root = _PathNode()
        for rule in rules:
            node = root
            for step in rule.at.split(".") if rule.at else ():
                is_array = step.endswith("[]")
                node = node.children.setdefault((step.removesuffix("[]"), is_array), _PathNode())
            node.rules.append(rule)
        self._arrays = tuple(name for name, is_array in root.children if is_array)
        self._root = root

    @classmethod
    def of(cls, wire_type: type[Wire], rules: Iterable[Rule]) -> "RuleBook":
        """Return a book of the rules, and of the checks that the shape needs after decoding."""
        derived = (
            Rule(code=check.code, at=check.at, holds=check.holds, says=check.says, source="ours: the shape of the wire")
            for check in derived_checks(wire_type)
        )
        return cls((*derived, *rules), wire_type)

    def breaches(
        self, value: Any, now: datetime, shape_errors: Sequence[Problem] = (), *, within_s: float = MAX_RULES_S
    ) -> list[Breach]:
        """Return every rule that the value breaks, except rules that read a path with a problem in `shape_errors`.

        Problems of undocumented fields skip no rule, since no rule reads undocumented fields. No rule runs if
        `shape_errors` already fills the answer. The breaches of each severity are limited to the number that an answer
        lists, followed by a `LeftOut`. Raises TooMuchWork if the check takes more than `within_s` seconds of CPU time
        and the answer is not full by then.
        """
        if is_truncated(shape_errors) or (not shape_errors and self._holds(value, now)):
            return []
        breaches: list[Breach] = []
        counts = _NO_COUNTS.copy()
        check_time = Work(within_s).check_time if self._is_large(value) else _no_time_limit

        def broken(rule: Rule, value: Any, *path: str | int) -> None:
            """Add a breach. The generated function calls this with the rule, the value and the steps of its path."""
            counts[rule.severity] += 1
            if counts[rule.severity] > 0:
                return
            steps = [*map(str, (*path, rule.field) if isinstance(value, msgspec.Struct | tuple) else path)]
            says = named(rule.says, self._wire_type, steps) if self._wire_type else rule.says
            breaches.append(Breach(Problem(".".join(steps), rule.code, says), rule.severity))

        try:
            self._apply(
                value, now, broken, check_time, _readable_paths(shape_errors) if shape_errors else _always_readable
            )
        except TooMuchWork:
            if counts[Severity.ERROR] <= 0:
                raise
        if breaches:
            breaches.extend([Breach(left_out(number), kind) for kind, number in counts.items() if number > 0])
        return breaches

    @cached_property
    def _holds(self) -> Callable[[Any, datetime], bool]:
        """Function that returns True if a small value breaks no rule.

        It is compiled at its first use, because most verbs of the command line check no account.
        """
        names: dict[str, Any] = {}
        lines = ["def holds(v0, now):", *_unbroken(self._root, 0, names), "    return True"]
        return _function("holds", lines, names)

    @cached_property
    def _apply(self) -> Callable[..., None]:
        return _compiled(self._root)

    def _is_large(self, value: Any) -> bool:
        """Return True if an array of the value is so long that the time limit must be checked (a system call)."""
        return max(map(len, map(getattr, repeat(value), self._arrays)), default=0) >= _ITEMS_PER_CHECK


_NO_COUNTS = dict.fromkeys(Severity, -MAX_PROBLEMS)


def _no_time_limit() -> None:
    """Time check that never stops the work: small values have no time limit."""


def _always_readable(*path: object) -> bool:
    """Return True: every path is valid in a value without shape errors."""
    return True


class _PathNode:
    """Rules at one path, and the fields below it."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.children: dict[tuple[str, bool], _PathNode] = {}


def _readable_paths(problems: Sequence[Problem]) -> Callable[..., bool]:
    """Return a function that returns whether a rule can run at a path.

    A rule can run if neither a path above the rule's path nor a path that the rule reads has a problem.
    """
    bad: set[tuple[str, ...]] = set()
    above: set[tuple[str, ...]] = set()
    problem_paths: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
    for problem in problems:
        if problem.code == UNKNOWN_FIELD:
            continue
        path = tuple(problem.attr.removesuffix("non_field_errors").strip(".").split("."))[:_MAX_STEPS]
        path = path if path != ("",) else ()
        bad.add(path)
        above.update(path[:length] for length in range(len(path)))
        kinds = tuple("[]" if step.isdigit() else step for step in path)
        problem_paths.update((path[:length], kinds[length:]) for length in range(len(path)))

    def is_readable(reads: tuple[tuple[str, ...], ...] | None, *steps: str | int) -> bool:
        path = tuple(map(str, steps))
        if any(path[:length] in bad for length in range(len(path) + 1)):
            return False
        if reads is None:
            return path not in above
        return not any(
            (path, below[:length]) in problem_paths for below in reads for length in range(1, len(below) + 1)
        )

    return is_readable


def _compiled(root: _PathNode) -> Callable[..., None]:
    names: dict[str, Any] = {}
    lines = ["def apply(v0, now, broken, check_time, is_readable):"]
    _write_checks(root, 0, (), lines, names)
    return _function("apply", lines, names)


def _function(name: str, lines: Iterable[str], names: dict[str, Any]) -> Callable[..., Any]:
    exec("\n".join(lines), names)  # noqa: S102 - our own source, from the rules' paths and nothing else
    return names[name]  # type: ignore[no-any-return]


def _unbroken(node: _PathNode, depth: int, names: dict[str, Any]) -> Iterator[str]:
    """Yield lines that return False if `v<depth>` or a value below it breaks a rule, or if an array is long."""
    indent, variable, inner = "    " * (depth + 1), f"v{depth}", f"v{depth + 1}"
    for rule in node.rules:
        holds = f"holds{len(names)}"
        names[holds] = rule.holds
        yield f"{indent}if not {_check_expression(rule, holds, variable)}: return False"
    for name in dict.fromkeys(name for name, _ in node.children):
        yield f"{indent}if {inner} := {variable}.{name}:"  # UNSET, absent values and empty arrays are false
        if depth == 0 and (name, True) in node.children:
            yield f"{indent}    if len({inner}) >= {_ITEMS_PER_CHECK}: return False"
        if (single := node.children.get((name, False))) is not None:
            yield from _unbroken(single, depth + 1, names)
        if (each := node.children.get((name, True))) is not None:
            yield f"{indent}    for {inner} in {inner}:"
            yield from (f"    {line}" for line in _unbroken(each, depth + 1, names))


def _write_checks(node: _PathNode, depth: int, path: tuple[str, ...], lines: list[str], names: dict[str, Any]) -> None:
    """Append lines that check `v<depth>` and the values below it. `path` consists of Python expressions."""
    indent, variable = "    " * (depth + 1), f"v{depth}"
    for rule in node.rules:
        number = len(names)
        names[f"holds{number}"], names[f"rule{number}"], names[f"reads{number}"] = rule.holds, rule, rule.reads
        readable = f"is_readable({', '.join((f'reads{number}', *path))})"
        lines.append(f"{indent}if {readable} and not {_check_expression(rule, f'holds{number}', variable)}:")
        lines.append(f"{indent}    broken({', '.join((f'rule{number}', variable, *path))})")
    for (name, is_array), child in node.children.items():
        inner = f"v{depth + 1}"
        steps = (*path, repr(name))
        lines.append(f"{indent}{inner} = {variable}.{name}")
        lines.append(f"{indent}if {inner}:")  # UNSET, absent values and empty arrays are false
        if is_array:
            lines.append(f"{indent}    for i{depth}, {inner} in enumerate({inner}):")
            steps = (*steps, f"i{depth}")
            if depth == 0:
                lines.append(f"{indent}        if i0 % {_ITEMS_PER_CHECK} == {_ITEMS_PER_CHECK - 1}: check_time()")
            body: list[str] = []
            _write_checks(child, depth + 1, steps, body, names)
            lines.extend(f"    {line}" for line in body)
        else:
            _write_checks(child, depth + 1, steps, lines, names)


_INLINED: dict[Any, str] = {is_not_blank: "{v}.strip()", is_in_calendar: "1 < {v}.year < 9999 or {holds}({v})"}
"""Checks of the shape, as expressions."""


def _check_expression(rule: Rule, holds: str, variable: str) -> str:
    """Return the rule's check of a variable, as an expression."""
    source: str | None = getattr(rule.holds, "inlined", None) or _INLINED.get(rule.holds)
    if source is not None:
        return f"({source.format(v=variable, holds=holds)})"
    return f"{holds}({variable}, now)" if rule.needs_now else f"{holds}({variable})"
