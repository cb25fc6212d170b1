"""The problems of one body as an answer can list them: so many, so large, and how many more there are."""

from collections.abc import Iterable, Sequence

import msgspec

from schemas.base import Problem
from schemas.sentence import Sentence, german_of

MAX_PROBLEMS = 1_000
"""Entries in one list of problems; where there are more, the last says how many are left out."""
MAX_PROBLEM_BYTES = 900_000
"""Bytes that the problems of one answer may take, in its list and in its tree."""
MAX_STEP = 64
"""Characters of a name in a path; what an importer has named longer is cut."""
MAX_PATH = 512
"""Characters of a path, which may lead through objects of the importer's own."""

UNKNOWN_FIELD = "unknown_field"
"""The code of a field that is not documented; suppliers may be set to have such fields dropped."""
ERRORS_TRUNCATED = "errors_truncated"
"""The code of the entry that says how many problems are left out."""

_LEVEL_BYTES = 8
"""What a level of the tree takes beside its name."""
_ENTRY_BYTES = 40
"""The names and signs around an entry of the list."""


class LeftOut(Problem, frozen=True):
    """Stands at a list's end for `left_out` problems that were found and are not listed."""

    left_out: int


class UnknownLeftOut(LeftOut, frozen=True):
    """The same for undocumented fields alone, which do not count for suppliers that have them dropped."""


class ProblemList:
    """Takes problems until it is full and counts the others; undocumented fields take no room from other problems."""

    def __init__(self) -> None:
        self._listed: list[Problem] = []
        self._fields = _Room()
        self._others = _Room()

    def room(self, code: str) -> "_Room":
        """The room that is left for problems of this code."""
        return self._fields if code == UNKNOWN_FIELD else self._others

    def note(self, attr: str, code: str, detail: str) -> None:
        """List a problem, or count it where the list is full."""
        room = self.room(code)
        if room.is_full:
            room.left_out += 1
        else:
            problem = Problem(attr, code, detail)
            room.take(_size(problem))
            self._listed.append(problem)

    def problems(self) -> list[Problem]:
        """The listed problems; at the end a `LeftOut` where some are not listed."""
        if number := self._fields.left_out:
            self._listed.append(UnknownLeftOut("non_field_errors", ERRORS_TRUNCATED, _says(number), number))
        if number := self._others.left_out:
            self._listed.append(left_out(number))
        return self._listed


class _Room:
    """How many more problems of one kind fit into the list, and how many were left out."""

    def __init__(self, most: int = MAX_PROBLEMS) -> None:
        self.left_out = 0
        self._most = most
        self._entries = 0
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return self._entries >= self._most or self._bytes >= MAX_PROBLEM_BYTES

    def take(self, size: int) -> None:
        self._entries += 1
        self._bytes += size


def bounded(problems: Iterable[Problem], most: int = MAX_PROBLEMS) -> list[Problem]:
    """The problems as one answer lists them: so many entries at most, of which the last may be a `LeftOut`."""
    listed: list[Problem] = []
    room, more = _Room(most), 0
    for problem in problems:
        if isinstance(problem, LeftOut):
            more += problem.left_out
        elif room.is_full:
            more += 1
        else:
            room.take(_size(problem))
            listed.append(problem)
    if more and len(listed) == most:
        listed.pop()
        more += 1
    return [*listed, left_out(more)] if more else listed


def is_truncated(problems: Sequence[Problem]) -> bool:
    """Whether a list leaves something out."""
    return any(isinstance(problem, LeftOut) for problem in problems)


def attr_of(path: Sequence[str]) -> str:
    """The dotted path of a problem, long names cut; "non_field_errors" for the whole."""
    attr = ".".join([step if len(step) <= MAX_STEP else cut(step, MAX_STEP) for step in path])
    return cut(attr, MAX_PATH) or "non_field_errors"


def cut(text: str, characters: int) -> str:
    """The text, or its beginning and a sign that there is more."""
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def left_out(number: int) -> LeftOut:
    """Stands for so many problems."""
    return LeftOut("non_field_errors", ERRORS_TRUNCATED, _says(number), number)


def _says(number: int) -> Sentence:
    if number == 1:
        return Sentence("1 further problem is not listed.", "1 weiteres Problem ist nicht aufgeführt.")
    return Sentence(f"{number} further problems are not listed.", f"{number} weitere Probleme sind nicht aufgeführt.")


def _size(problem: Problem) -> int:
    """Bytes in the list and, at most, in the tree: there a path is as long, with some signs for each level."""
    attr, detail = problem.attr, max(len(problem.detail), len(german_of(problem.detail).encode()))
    name = len(attr) if attr.isascii() and attr.isprintable() else len(msgspec.json.encode(attr))
    return 2 * (name + detail) + len(problem.code) + _ENTRY_BYTES + _LEVEL_BYTES * attr.count(".")


def is_stated(field: str, misfits: Iterable[Problem]) -> bool:
    """Whether a body with these misfits says a field of its outermost object itself, and no stand-in does."""
    return all(
        problem.attr not in (field, "non_field_errors") for problem in misfits if not isinstance(problem, LeftOut)
    )
