"""German texts of the api, the console and both command lines have the terms of the glossary."""

import ast
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

import importledger_client
from api.description.catalogue import CATALOGUE, ErrorCode
from cli import language
from console.presentation import texts
from tests.support.folders import ROOT

MARKET, _, SCREENS = (
    (ROOT / "docs" / "reference" / "glossary.md")
    .read_text()
    .partition("## Energy market")[2]
    .partition("## On screens")
)
TERMS = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]*)\|$", SCREENS.replace("| English | German | not |", ""), re.M)
"""English terms, their German terms, and German words that are not used for them."""
MARKET_WORDS = re.compile(
    r"\b(" + "|".join(re.findall(r"\w{8,}", "".join(re.findall(r"^\|[^|]+\|([^|]+)", MARKET, re.M)))) + ")"
)
"""Words of the market, which may contain a word that screens avoid."""
FOLDERS = ("api", "schemas", "market", "eventstore", "projections", "workers", "cli")
RELEASED = {"Zahlen je Feldpfad"}
"""Terms of released descriptions that may not change."""
OF_COMMANDS = {"cancel, cancelled", "field", "import", "log", "run", "support"}
"""Terms that also have another meaning in help: to run a process, a log file, a support bundle."""
_NAMES = re.compile(r"`[^`]*`|[A-Z][a-z]+-[A-Z][a-z]+|\bimport (?=supplier)|\bwrite-ahead log")
"""Code, headers of HTTP, the first half of a term, and a name of Postgres."""

Pair = tuple[str, str]


def of_sentences() -> Iterator[Pair]:
    """Yield the sentences of the api and of other packages, and the German term of each field."""
    pairs = [(text, german) for entry in CATALOGUE for text, german in of_entry(entry)]
    for file in (file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="Sentence"), args=[english, german]):
                    pairs.append((_text_of(english), _text_of(german)))
                case ast.Expr(value=ast.Constant(value=str(text))) if file.is_relative_to(ROOT / "schemas"):
                    pairs += [("", term) for term in re.findall(r"\(([^()]+)\)", text) if term not in RELEASED]
    return ((_NAMES.sub("", english), german) for english, german in pairs)


def of_entry(entry: ErrorCode) -> Iterator[Pair]:
    yield from ((entry.meaning, entry.meaning_de), (entry.when, entry.when_de), (entry.action, entry.action_de))
    yield from ((rule.says, rule.says_de) for rule in entry.rules)


def _text_of(node: ast.expr) -> str:
    """Return the constant parts of a text."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(str(value.value) if isinstance(value, ast.Constant) else "…" for value in values)
    return ""


def of_catalogue(folder: Path, name: str, names: str) -> Iterator[Pair]:
    """Yield the texts of a catalogue without names in them that are no words."""
    for message in texts.catalogue("de", folder, name):
        english, german = ([it] if isinstance(it, str) else list(it or ()) for it in (message.id, message.string))
        yield re.sub(names, "", english[0]), re.sub(names, "", " ".join(german))


def of_importbook() -> Iterator[Pair]:
    names = re.compile(r"`[^`]*`|--\w+|RUN\.certificate\.\w+|\{[^}]*\}")
    read = yaml.safe_load((Path(importledger_client.__file__).parent / "german.yaml").read_text())
    return ((names.sub("", english), names.sub("", german)) for english, german in read.items())


SOURCES: dict[str, Callable[[], Iterator[Pair]]] = {
    "api": of_sentences,
    "cli": partial(of_catalogue, language.LOCALE, language.NAME, r"`[^`]*`|--[a-z-]+|\{[^}]*\}|\b[A-Z]{3,}\b"),
    "console": partial(of_catalogue, texts.LOCALE, "console", r"%\(\w+\)s"),
    "importbook": of_importbook,
}


@pytest.mark.parametrize("source", SOURCES)
def test_an_english_term_has_one_german_term(source: str) -> None:
    """German words are compared by their beginnings, since they have endings."""
    found = {(english, german) for english, german in SOURCES[source]() if german}
    assert len(found) > 300
    german_texts = [MARKET_WORDS.sub("", german) if source == "api" else german for _, german in found]
    for english, german, wrong in TERMS:
        named = re.compile(rf"\b({english.replace(', ', '|')})s?\b", re.I)
        stems = [word[:4].lower() for word in german.split(", ")]
        if source != "cli" or english not in OF_COMMANDS:
            without = [pair for pair in found if named.search(pair[0]) and not any(s in pair[1].lower() for s in stems)]
            assert without == [], english
        for word in filter(None, wrong.strip().split(", ")):
            assert [text for text in german_texts if re.search(rf"\b{word}", text)] == [], english
