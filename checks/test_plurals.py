"""Rule for numbers in sentences: `counted` adds the noun, in the singular or plural."""

import ast
import re

import pytest

from checks.plain_english import tracked
from tests.support.folders import ROOT

FOLDERS = ("cli", "eventstore", "projections", "importer/src")
ALONE = "verifier.py"
"""File that is not checked: it imports nothing, and a proof has at least two events, so its plurals are right."""
NOUNS = (
    "account|cell|change|checkpoint|e-mail|error|event|import|key|line|migration|moment|path|payload|person|"
    "position|process|projection|record|request|row|sheet|stream|supplier|user|value|version|warning|worker"
)
_PLURAL = re.compile(rf" (?:(?!has |holds |with )[a-z-]+ )?(?:{NOUNS})(?:s|es)\b")


def plurals(tree: ast.AST) -> list[str]:
    """Return plurals that follow a placeholder in an f-string."""
    return [
        f"{{{ast.unparse(value.value)}}}{text.value!s}"
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for value, text in zip(node.values, node.values[1:], strict=False)
        if isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant) and _PLURAL.match(str(text.value))
    ]


def test_a_plural_after_a_number_is_found() -> None:
    assert plurals(ast.parse('f"{n:,} events" + f"{n} parked streams." + f"{name} has events"')) == [
        "{n} events",
        "{n} parked streams.",
    ]


def test_no_sentence_has_a_plural_for_every_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    files = [path for path in tracked(FOLDERS) if path.suffix == ".py" and path.name != ALONE]
    assert len(files) > 100
    found = {str(path): found for path in files if (found := plurals(ast.parse(path.read_text())))}
    assert not found
