"""Lists of the problems of one body, limited in number and bytes.

The last entry has the number of problems that are not listed.
"""

from collections.abc import Iterable, Sequence

import msgspec

from schemas.base import Problem
from schemas.sentence import Sentence, german_of

MAX_PROBLEMS = 1_000
"""Most entries of a list of problems.

If there are more problems, the last entry has the number of problems that are not listed.
"""
MAX_PROBLEM_BYTES = 900_000
"""Bytes that the problems of one answer may take, in its list and in its tree."""
MAX_STEP = 64
"""Most characters of a name in a path. Longer names are cut."""
MAX_PATH = 512
"""Most characters of a path. Longer paths, into free content, are cut."""

UNKNOWN_FIELD = "unknown_field"
"""Code of an undocumented field. A supplier's setting may drop such fields instead."""
ERRORS_TRUNCATED = "errors_truncated"
"""Code of the entry with the number of problems that are left out."""

_LEVEL_BYTES = 8
"""Bytes of a level of the tree, without the level's name."""
_ENTRY_BYTES = 40
"""Bytes of the names and signs around an entry of the list."""


class LeftOut(Problem, frozen=True):
    """Last entry of a list that leaves `left_out` problems out."""

    left_out: int


class UnknownLeftOut(LeftOut, frozen=True):
    """`LeftOut` of undocumented fields. If a supplier's setting drops undocumented fields, it also drops this entry."""


class ProblemList:
    """Bounded list of problems. Further problems are only counted. Undocumented fields have a separate limit."""

    def __init__(self) -> None:
        self._listed: list[Problem] = []
        self._field_capacity = _Capacity()
        self._other_capacity = _Capacity()

    def capacity(self, code: str) -> "_Capacity":
        """Return the number of free entries for problems with a code."""
        return self._field_capacity if code == UNKNOWN_FIELD else self._other_capacity

    def note(self, attr: str, code: str, detail: str) -> None:
        """List a problem, or count it if the list is full."""
        capacity = self.capacity(code)
        if capacity.is_full:
            capacity.left_out += 1
        else:
            problem = Problem(attr, code, detail)
            capacity.add(_size(problem))
            self._listed.append(problem)

    def problems(self) -> list[Problem]:
        """Return the listed problems, with a `LeftOut` at the end for each exceeded limit. Call this only once."""
        if number := self._field_capacity.left_out:
            self._listed.append(UnknownLeftOut("non_field_errors", ERRORS_TRUNCATED, _omitted_sentence(number), number))
        if number := self._other_capacity.left_out:
            self._listed.append(left_out(number))
        return self._listed


class _Capacity:
    """Free entries of a list for one kind of problems, and the number that was left out."""

    def __init__(self, max_entries: int = MAX_PROBLEMS) -> None:
        self.left_out = 0
        self._max_entries = max_entries
        self._entries = 0
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return self._entries >= self._max_entries or self._bytes >= MAX_PROBLEM_BYTES

    def add(self, size: int) -> None:
        self._entries += 1
        self._bytes += size


def bounded(problems: Iterable[Problem], max_entries: int = MAX_PROBLEMS) -> list[Problem]:
    """Return at most `max_entries` problems for an answer.

    If there are more problems, the last entry is a `LeftOut`.
    """
    listed: list[Problem] = []
    capacity, more = _Capacity(max_entries), 0
    for problem in problems:
        if isinstance(problem, LeftOut):
            more += problem.left_out
        elif capacity.is_full:
            more += 1
        else:
            capacity.add(_size(problem))
            listed.append(problem)
    if more and len(listed) == max_entries:
        listed.pop()
        more += 1
    return [*listed, left_out(more)] if more else listed


def is_truncated(problems: Sequence[Problem]) -> bool:
    """Return True if a list leaves problems out."""
    return any(isinstance(problem, LeftOut) for problem in problems)


def attr_of(path: Sequence[str]) -> str:
    """Return the dotted path of a problem, with long names cut; "non_field_errors" for the whole body."""
    attr = ".".join([step if len(step) <= MAX_STEP else truncated(step, MAX_STEP) for step in path])
    return truncated(attr, MAX_PATH) or "non_field_errors"


def truncated(text: str, characters: int) -> str:
    """Return the text, or its beginning and an ellipsis if it is longer."""
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def left_out(number: int) -> LeftOut:
    """Return the entry for problems that are not listed."""
    return LeftOut("non_field_errors", ERRORS_TRUNCATED, _omitted_sentence(number), number)


def _omitted_sentence(number: int) -> Sentence:
    if number == 1:
        return Sentence("1 further problem is not listed.", "1 weiterer Fehler ist nicht aufgeführt.")
    return Sentence(f"{number} further problems are not listed.", f"{number} weitere Fehler sind nicht aufgeführt.")


def _size(problem: Problem) -> int:
    """Return the bytes of a problem in the list, and its greatest number of bytes in the tree."""
    attr, detail = problem.attr, max(len(problem.detail), len(german_of(problem.detail).encode()))
    name = len(attr) if attr.isascii() and attr.isprintable() else len(msgspec.json.encode(attr))
    return 2 * (name + detail) + len(problem.code) + _ENTRY_BYTES + _LEVEL_BYTES * attr.count(".")


def is_stated(field: str, shape_errors: Iterable[Problem]) -> bool:
    """Return True if the outermost object of a body with shape errors has a valid value for a field."""
    return all(
        problem.attr not in (field, "non_field_errors") for problem in shape_errors if not isinstance(problem, LeftOut)
    )
