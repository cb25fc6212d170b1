"""The changes of a source file that are tried, one at a time: those of mutmut, and limits that are smaller by one.

Code that decides is changed, wherever it is: functions, rows of tables, decorators' arguments, defaults. Text for
people is left alone, such as docstrings, sentences and sources of rules. So are types, and values that do not affect
results, such as the size of a cache.
"""

import importlib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import Any

from lab.mutation.mutant import Mutant

# Without types: only `make mutants` installs these libraries, and type checks must not depend on them.
cst: Any = importlib.import_module("libcst")
metadata: Any = importlib.import_module("libcst.metadata")
operators: Any = importlib.import_module("mutmut.mutation.mutators")

_TEXT_CALLS = {"Sentence", "TypeVar", "lru_cache", "cast", "len", "isinstance", "assert_never"}
"""Calls whose arguments decide nothing: text for people, conversions of types, caches, and unreachable calls."""
_TEXT_ARGUMENTS = {"says", "source", "frozen", "kw_only", "maxsize"}

_TEXT_PARAMETERS = {"noun", "nomen", "english", "german", "source"}
"""Parameters of functions that make rules: they become part of a sentence."""

_WORDS_OF_A_CODE = 2
"""Texts of more words are sentences."""
_NOUN = re.compile(r"[A-ZÄÖÜ][a-zäöüß]+(?:[ -][A-Za-zÄÖÜäöüß]+)*")
"""Texts of this form are nouns of a sentence: `Smart meter gateway`. Paths and codes have another form."""


@dataclass(frozen=True)
class Draft:
    """A change that is not made yet: making it is slow, and a sample needs few changes."""

    file: str
    line: int
    function: tuple[str, ...]
    runs_at_import: bool
    source: str
    changed: Callable[[], str]

    def mutant(self) -> Mutant | None:
        """Make the change. Return None if it changes nothing, or is not valid Python."""
        changed = self.changed()
        if changed == self.source or not _compiles(changed):
            return None
        was, now = _difference(self.source, changed)
        return Mutant(self.file, self.line, self.function, self.runs_at_import, was, now, changed)


def drafts_of(file: str) -> list[Draft]:
    """Return every change of the file, in the order of its lines."""
    source = Path(file).read_text()
    wrapper = metadata.MetadataWrapper(cst.parse_module(source))
    module, positions = wrapper.module, wrapper.resolve(metadata.PositionProvider)
    parts = [module.code_for_node(statement) for statement in module.body]
    before = "".join(map(module.code_for_node, module.header))
    after = "".join(map(module.code_for_node, module.footer))

    def changed(index: int, node: Any, other: Any) -> str:
        part = module.code_for_node(module.body[index].deep_replace(node, other))
        return "".join((before, *parts[:index], part, *parts[index + 1 :], after))

    found = [
        Draft(
            file,
            positions[node].start.line,
            scope.function,
            scope.runs_at_import,
            source,
            partial(changed, index, node, other),
        )
        for index, statement in enumerate(module.body)
        for node, scope in _decisive(statement, _Scope())
        for other in _changes(node)
    ]
    return sorted(found, key=lambda draft: draft.line)


def mutants_of(drafts: Iterable[Draft]) -> list[Mutant]:
    """Make the changes, and return each different one once."""
    mutants = (draft.mutant() for draft in drafts)
    return list({(mutant.file, mutant.source): mutant for mutant in mutants if mutant is not None}.values())


@dataclass(frozen=True)
class _Scope:
    function: tuple[str, ...] = ()
    runs_at_import: bool = True


def _decisive(node: Any, scope: _Scope) -> Iterator[tuple[Any, _Scope]]:
    """Yield each node that may be changed, with its place."""
    if _is_text_only(node):
        return
    yield node, scope
    for child in node.children:
        inside = scope
        if isinstance(node, cst.FunctionDef | cst.ClassDef) and child is node.body:
            is_class = isinstance(node, cst.ClassDef)
            inside = _Scope((*scope.function, node.name.value), scope.runs_at_import and is_class)
        yield from _decisive(child, inside)


def _is_text_only(node: Any) -> bool:
    if isinstance(node, cst.Annotation | cst.Import | cst.ImportFrom):
        return True
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name):
        return node.func.value in _TEXT_CALLS
    if isinstance(node, cst.Arg) and node.keyword is not None:
        return node.keyword.value in _TEXT_ARGUMENTS
    if isinstance(node, cst.Name):
        return node.value in _TEXT_PARAMETERS
    if isinstance(node, cst.Assign):
        return _is_type(node) or _is_sentence(_text(node.value))
    if isinstance(node, cst.SimpleString | cst.ConcatenatedString | cst.FormattedString):
        return _is_sentence(_text(node))
    return isinstance(node, cst.Expr) and isinstance(node.value, cst.SimpleString)


def _text(node: Any) -> str:
    """Return the text of a literal, without the values of an f-string; "" for anything else."""
    if isinstance(node, cst.ConcatenatedString):
        return _text(node.left) + _text(node.right)
    if isinstance(node, cst.FormattedString):
        return "".join(part.value for part in node.parts if isinstance(part, cst.FormattedStringText))
    return str(node.evaluated_value) if isinstance(node, cst.SimpleString) else ""


def _is_sentence(text: str) -> bool:
    return len(text.split()) > _WORDS_OF_A_CODE or _NOUN.fullmatch(text) is not None


def _is_type(node: Any) -> bool:
    """Return True if the assignment only names a type, as `Command = Create | Change` or `Check = Callable[…]`."""
    if isinstance(node.value, cst.Call) and getattr(node.value.func, "value", "") == "TypeVar":
        return True
    name = getattr(node.targets[0].target, "value", "")
    is_named = isinstance(name, str) and name.strip("_")[:1].isupper() and not name.isupper()
    return is_named and isinstance(node.value, cst.Subscript | cst.BinaryOperation)


def _changes(node: Any) -> Iterator[Any]:
    """Yield mutmut's changes of this node, without equivalent ones, and limits that are smaller by one."""
    for kind, operator in operators.mutation_operators:
        if not isinstance(node, kind):
            continue
        if operator is operators.operator_string:
            yield from list(operator(node))[:1]  # the others change letters' case
        elif operator is operators.operator_arg_removal:
            yield from _without_an_argument(node)
        elif operator is operators.operator_match:
            yield from _without_a_case(node)
        else:
            yield from operator(node)
    if isinstance(node, cst.Integer):
        number = node.evaluated_value - 1
        yield node.with_changes(value=str(number)) if number >= 0 else cst.parse_expression(f"({number})")


def _without_an_argument(call: Any) -> Iterator[Any]:
    """Yield the call with None for one positional argument, or without one keyword argument.

    Other combinations would not run at all.
    """
    for index, argument in enumerate(call.args):
        if argument.star or _is_text_only(argument) or _is_text_only(argument.value):
            continue
        if argument.keyword is not None:
            yield call.with_changes(args=[*call.args[:index], *call.args[index + 1 :]])
        elif not (isinstance(argument.value, cst.Name) and argument.value.value == "None"):
            none = argument.with_changes(value=cst.Name("None"))
            yield call.with_changes(args=[*call.args[:index], none, *call.args[index + 1 :]])


def _without_a_case(match: Any) -> Iterator[Any]:
    for index, case in enumerate(match.cases):
        if len(match.cases) > 1 and "assert_never" not in cst.Module([]).code_for_node(case.body):
            yield match.with_changes(cases=[*match.cases[:index], *match.cases[index + 1 :]])


def _compiles(source: str) -> bool:
    with warnings.catch_warnings(action="error"), suppress(SyntaxError):
        return bool(compile(source, "a mutant", "exec"))
    return False


def _difference(source: str, changed: str) -> tuple[str, str]:
    """Return the lines that differ, joined to one line: those before the change, and those after it."""
    old, new = source.splitlines(), changed.splitlines()
    first = next(
        i for i, (old_line, new_line) in enumerate(zip([*old, ""], [*new, ""], strict=False)) if old_line != new_line
    )
    if len(old) == len(new):
        last = next(i for i in range(1, len(old) + 1) if old[-i] != new[-i])
        return _joined(old[first : len(old) - last + 1]), _joined(new[first : len(new) - last + 1])
    parts = [part for part in SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if part[0] != "equal"]
    return (
        _joined([line for _, start, end, _, _ in parts for line in old[start:end]]),
        _joined([line for _, _, _, start, end in parts for line in new[start:end]]),
    )


def _joined(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines)
