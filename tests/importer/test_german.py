"""importbook in German: each text has a German one with the same values, and verbs speak the user's language."""

import ast
import errno
import os
import re
import string
import subprocess
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import click
import msgspec
import pytest
import yaml
from openpyxl import load_workbook

import importledger_client
from importledger_client import display
from importledger_client.book import one_account
from importledger_client.commands.verbs import importbook as verbs
from importledger_client.commands.verbs import metavar_of, paragraphs
from importledger_client.contract import RECORDS
from importledger_client.display import amount, number
from importledger_client.manifest import SHOWN_COUNTS, SUMS
from tests.support.importbook import COMMAND, Verb, environment, importbook
from tests.support.running import Importer

PACKAGE = Path(importledger_client.__file__).parent
TRANSLATING = ("_", "Unreadable", "Differs", "MappingError", "Stop")
"""Functions and errors that translate their first argument."""
CLICK = ("core.py", "decorators.py", "exceptions.py", "formatting.py", "parser.py", "types.py")
"""Modules of click with the texts that users of verbs can see."""
KINDS_OF_DIFFERENCES = ("missing", "additional", "different")


@cache
def german() -> dict[str, str]:
    texts = yaml.safe_load((PACKAGE / "german.yaml").read_text())
    assert isinstance(texts, dict)
    return texts


def calls(folder: Path, *names: str) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls of these functions in the Python files of a folder, with their places."""
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in names:
                yield f"{file.relative_to(folder)}:{node.lineno}", node


def constants(nodes: list[ast.expr]) -> list[str]:
    """Return the constant texts of arguments, with both texts of a conditional expression."""
    parts = [part for node in nodes for part in ((node.body, node.orelse) if isinstance(node, ast.IfExp) else (node,))]
    return [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]


@cache
def texts_of_package() -> dict[str, str]:
    """Return the texts that the package's functions translate, with their places."""
    found = {text: at for at, call in calls(PACKAGE, *TRANSLATING, "translatable") for text in constants(call.args[:1])}
    for at, call in calls(PACKAGE, "counted"):
        if words := constants(call.args[1:]):
            found |= {words[0]: at, (words[1] if len(words) > 1 else f"{words[0]}s"): at}
    labels = {name.replace("_", " ") for name in ("accounts", *SHOWN_COUNTS, *SUMS)}
    records = {f"{name.replace('_', ' ')}{ending}" for name in RECORDS for ending in ("", "s")}
    return found | dict.fromkeys([*labels, *records, *KINDS_OF_DIFFERENCES], "label")


def texts_of_help(command: click.Command) -> Iterator[str]:
    """Yield the texts in the help of a command and of the verbs below it."""
    yield from paragraphs(command.help)
    yield from (parameter.help or "" for parameter in command.params if isinstance(parameter, click.Option))
    for verb in command.commands.values() if isinstance(command, click.Group) else ():
        yield from texts_of_help(verb)


def metavars(command: click.Command) -> Iterator[str]:
    """Yield the names of values in the help of a command and of the verbs below it."""
    yield from map(metavar_of, command.params)
    for verb in command.commands.values() if isinstance(command, click.Group) else ():
        yield from metavars(verb)


@cache
def texts_of_click() -> set[str]:
    found = calls(Path(click.__file__).parent, "_", "ngettext")
    return {text for at, call in found if at.split(":")[0] in CLICK for text in constants(call.args)}


def names(text: str) -> list[str]:
    """Return the names of the values in a text."""
    return sorted(name.split("!")[0] for _, name, _, _ in string.Formatter().parse(text) if name)


def test_every_text_has_a_german_text() -> None:
    places = dict.fromkeys(filter(None, texts_of_help(verbs)), "help") | texts_of_package()
    assert {text: at for text, at in places.items() if text not in german()} == {}


def test_every_german_text_is_used_and_has_the_same_values() -> None:
    placed = {"[OPTIONS]", "COMMAND [ARGS]...", "file", "directory", "path", "required", *metavars(verbs)}
    placed |= {os.strerror(number) for number in errno.errorcode}
    assert german().keys() - {*placed, *texts_of_help(verbs), *texts_of_package(), *texts_of_click()} == set()
    assert [text for text, translation in german().items() if names(text) != names(translation)] == []


def test_every_text_gets_the_values_that_it_names() -> None:
    for at, call in calls(PACKAGE, *TRANSLATING):
        given = sorted(keyword.arg or "" for keyword in call.keywords)
        for text in constants(call.args[:1]):
            assert sorted({*names(text)}) == given if given else "{" not in text, at


def test_no_function_that_translates_has_another_variable_of_this_name() -> None:
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                uses = [type(name.ctx) for name in ast.walk(node) if isinstance(name, ast.Name) and name.id == "_"]
                assert len(set(uses)) < 2, f"{file.name}: {node.name}"


GERMAN = {"LC_ALL": "", "LC_MESSAGES": "", "LANG": "de_DE.UTF-8"}
in_german = partial(importbook, access=GERMAN)


def test_help_is_german() -> None:
    shown = in_german("--help").stdout
    for part in (
        "Aufruf: ",
        "\nBestand vorbereiten:\n",
        "  -h, --help  Diese Hilfe anzeigen und beenden.",
        "  Beispiel: importbook push ",
    ):
        assert part in shown
    shown = in_german("map", "init", "--help").stdout
    for part in (" map init [OPTIONEN] DATEI…", "  Er entsteht aus den Namen der Spalten", "[Standard: generic]"):
        assert part in shown


def test_a_wrong_call_gets_german_sentences() -> None:
    wrong = in_german("push", "book.ndjson", "--mod", "x")
    assert (wrong.returncode, wrong.stderr.splitlines()[-1]) == (
        2,
        "Fehler: Es gibt keine Option '--mod'. Meinten Sie '--mode'?",
    )
    words = [*COMMAND, "reconcile", "go", "--manifest", "none.json"]  # a process: click translates at import
    missing = subprocess.run(words, env=environment(GERMAN), capture_output=True, text=True, timeout=60)
    assert "Ungültiger Wert für '--manifest': Datei 'none.json' gibt es nicht." in missing.stderr


@pytest.mark.promise("failures-in-excel")
def test_a_push_with_errors_and_its_comparison_are_german(
    tmp_path: Path, importer: Importer, verb: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    right, wrong = (one_account(importer.supplier, number) for number in (1, 2))
    wrong["customers"][0]["mobile"] = "49 12"
    (tmp_path / "book.ndjson").write_bytes(b"\n".join(map(msgspec.json.encode, (right, wrong))))
    pushed = verb("push", "book.ndjson", "--run", "go", "--wait")
    assert pushed.returncode == 1
    for line in (
        r"Lauf go · create · 2 Zeilen in \d+s \(\d+/s\)",
        r"angenommen 1 · bereits vorhanden 0 · abgewiesen 1.*",
        r"Häufigste Fehler:",
        r"Korrigieren Sie diese Konten in go\.failures\.ndjson; go\.failures\.csv nennt jeden Fehler\.",
        r"weiter:  importbook errors go",
    ):
        assert re.search(rf"^{line}$", pushed.stdout, re.M), line
    listed = verb("errors", "go", "--excel").stdout
    assert listed.startswith("Lauf go: 1 Konto mit Fehlern\n")
    assert "  Beheben macht 100 % fehlerfrei\n" in listed
    workbook = load_workbook(tmp_path / "go.failures.xlsx")
    assert workbook.sheetnames == ["Zuerst beheben", "accounts"]
    [comment] = [cell.comment.text for row in workbook["accounts"].iter_rows() for cell in row if cell.comment]
    assert "Telefonnummer" in comment
    in_json = verb("errors", "go", "--json").stdout
    assert [*msgspec.json.decode(in_json)] == ["run", "errors", "warnings"]
    counted = verb("manifest", "book.ndjson", "-o", "m.json").stdout
    assert counted.startswith("Konten 2 · Kunden 2 · ")
    found = verb("reconcile", "go", "--manifest", "m.json")
    assert found.returncode == 1
    assert re.search(r"^ +Altsystem +Plattform\nKonten +2 +1   <-- weicht ab$", found.stdout, re.M)
    assert f"Abweichende Konten: 1\n  {wrong['external_account_number']}: fehlt, der Lauf enthält es" in found.stdout
    (tmp_path / "book.ndjson").write_bytes(msgspec.json.encode(right))
    verb("manifest", "book.ndjson", "-o", "m.json")
    equal = verb("reconcile", "go", "--manifest", "m.json")
    assert "\nBALANCED. Das signierte Zertifikat ist go.certificate.json; " in equal.stdout


def test_numbers_have_german_separators(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (number(1234.56, 1), amount("-1234.56"), display.counted(1, "row")) == ("1,234.6", "-1234.56", "1 row")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert (number(1234.56, 1), amount("-1234.56"), display.counted(1, "row")) == ("1.234,6", "-1234,56", "1 Zeile")


@pytest.mark.parametrize(
    ("column", "code", "sentences"),
    [
        ("Nummer", 2, ("Die Spalte Nummer gibt es in der Tabelle nicht; es gibt",)),
        ("Kontonummer", 1, ("1 Zeile, 2 gefüllte Zellen, davon 1 ignoriert: Name", "Spalte Name: Kein Feld verwendet")),
    ],
)
def test_map_check_is_german(tmp_path: Path, column: str, code: int, sentences: tuple[str, ...]) -> None:
    (tmp_path / "kunden.csv").write_text("Kontonummer;Name\nA-1;Maier\n")
    (tmp_path / "m.yaml").write_text(f"account: {{external_account_number: {column}}}")
    shown = importbook("map", "check", "m.yaml", "kunden.csv", at=tmp_path, access={"LC_ALL": "de_DE.UTF-8"})
    assert shown.returncode == code
    assert all(sentence in shown.stdout + shown.stderr for sentence in sentences), shown
