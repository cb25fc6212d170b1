"""German texts of the API have the terms of the glossary, as the console has them."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from api.description.catalogue import CATALOGUE
from tests.support.folders import ROOT

ENERGY, _, GLOSSARY = (
    (ROOT / "docs" / "reference" / "glossary.md")
    .read_text()
    .partition("## Energy market")[2]
    .partition("## On screens")
)
TERMS = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]*)\|$", GLOSSARY.replace("| English | German | not |", ""), re.M)
FOLDERS = ("api", "schemas", "market", "eventstore", "projections", "workers", "cli")
MARKET = re.compile(
    r"\b(" + "|".join(re.findall(r"\w{8,}", "".join(re.findall(r"^\|[^|]+\|([^|]+)", ENERGY, re.M)))) + ")"
)
"""Words of the market, which may contain a word that screens avoid."""
_NAMES = re.compile(r"`[^`]*`|[A-Z][a-z]+-[A-Z][a-z]+|\bimport (?=supplier)|\bwrite-ahead log")
"""Code, headers of HTTP, the first half of a term, and a name of Postgres."""
RELEASED = {"Zahlen je Feldpfad"}
"""Terms of released descriptions that may not change."""
_IN_BRACKETS = re.compile(r"\(([^()]+)\)")


def text_of(node: ast.expr) -> str:
    """Return the constant parts of a text."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(value.value if isinstance(value, ast.Constant) else "…" for value in values)  # type: ignore[misc]
        case _:
            return ""


def sentences() -> Iterator[tuple[str, str]]:
    """Yield every sentence of the API in English and German."""
    for entry in CATALOGUE:
        yield entry.meaning, entry.meaning_de
        yield entry.when, entry.when_de
        yield entry.action, entry.action_de
        yield from ((rule.says, rule.says_de) for rule in entry.rules)
    for file in (file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="Sentence"), args=[english, german]):
                    yield text_of(english), text_of(german)


@cache
def pairs() -> set[tuple[str, str]]:
    """Return the sentences that have both languages, without names of code in English."""
    return {(_NAMES.sub("", english), german) for english, german in sentences() if english and german}


@cache
def german_texts() -> list[str]:
    """Return the German sentences and terms, without words of the market."""
    terms = set(terms_of_fields()) - RELEASED
    return [MARKET.sub("", text) for text in (*(german for _, german in pairs()), *terms)]


def terms_of_fields() -> Iterator[str]:
    """Yield the German term of every field, which its description has in brackets."""
    for file in Path(ROOT / "schemas").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                yield from _IN_BRACKETS.findall(node.value.value)


@pytest.mark.parametrize(("english", "german", "wrong"), TERMS, ids=lambda text: text.strip() or "-")
def test_an_english_term_has_one_german_term(english: str, german: str, wrong: str) -> None:
    named = re.compile(rf"\b({english.replace(', ', '|')})s?\b", re.I)
    stems = [word[:4].lower() for word in german.split(", ")]
    assert len(pairs()) > 300
    assert [p for p in pairs() if named.search(p[0]) and not any(stem in p[1].lower() for stem in stems)] == []
    for word in filter(None, wrong.strip().split(", ")):
        assert [text for text in german_texts() if re.search(rf"\b{word}", text)] == []
