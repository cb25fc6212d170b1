"""The command line speaks German if the locale asks for it, and every text has a translation."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import click
import pytest
from click.testing import CliRunner

from cli.language import LOCALE, NAME, WORDS, Confirmation, _, counted, is_german, translated
from cli.main import importledger
from cli.verbs import GROUPS
from console.presentation.texts import catalogue
from eventstore.aggregates.owner_task import SECOND_PERSON
from eventstore.operations.backup import TABLES
from tests.support.running import cli, program
from tests.support.verbs import every_verb

GERMAN = {"LC_ALL": "", "LC_MESSAGES": "", "LANG": "de_DE.UTF-8"}
ROOT = Path(__file__).parents[2]
CLICK = Path(click.__file__).parent


def texts_of(*files: Path) -> Iterator[str]:
    """Every text that these files pass to a translation."""
    for file in files:
        tree = ast.parse(file.read_text())
        imports = [
            node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "cli.language"
        ]
        counts = any(alias.name == "counted" for node in imports for alias in node.names)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            texts = [word.value for word in node.args if isinstance(word, ast.Constant) and isinstance(word.value, str)]
            if node.func.id == "counted" and counts:
                yield from (texts[0], f"{texts[0]}s") if len(texts) == 1 else texts
            elif node.func.id in ("_", "N_", "ngettext", "progress_bar"):
                yield from texts


def help_texts() -> Iterator[str]:
    """Every paragraph of a verb's help, and the help of each option."""
    for _name, verb in every_verb():
        yield from (" ".join(text.split()) for text in inspect.cleandoc(verb.help or "").split("\n\n"))
        yield from (option.help for option in verb.params if isinstance(option, click.Option) and option.help)


def placeholders() -> set[str]:
    """Words in capital letters that help shows for values."""
    context = click.Context(importledger)
    rows = [option.get_help_record(context) or ("", "") for _name, verb in every_verb() for option in verb.params]
    return {*WORDS.findall(" ".join(names for names, _ in rows)), "OPTIONS", "COMMAND", "ARGS"}


def sentences_of(*packages: str) -> Iterator[str]:
    """Every text in the source of these packages, with {} for each value."""
    for package in packages:
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
                elif isinstance(node, ast.JoinedStr):
                    yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)


REQUIRED = {
    *help_texts(),
    *SECOND_PERSON,
    *GROUPS,
    *texts_of(*(ROOT / "cli").rglob("*.py")),
    *texts_of(CLICK / "exceptions.py", CLICK / "formatting.py", CLICK / "parser.py"),
}
GERMAN_TEXTS = {str(message.id): str(message.string) for message in catalogue("de", LOCALE, NAME) if message.id}


BACKUP_ROWS = {f"{name.replace('_', ' ').removesuffix('s')}{end}" for name in TABLES for end in ("", "s")}
"""Names of the rows that `backup` counts."""


def test_every_text_is_there_in_german() -> None:
    assert sorted(text for text in REQUIRED if not GERMAN_TEXTS.get(text)) == []


def test_the_catalogue_has_no_unused_text() -> None:
    used = REQUIRED | placeholders() | {*texts_of(*CLICK.glob("*.py")), "required"}
    others = {*sentences_of("cli", "embedded", "eventstore", "projections", "workers", "schemas"), *BACKUP_ROWS}
    unused = [text for text in GERMAN_TEXTS if text not in used and re.sub(r"\{[^}]*\}", "{}", text) not in others]
    assert unused == []


def test_places_for_values_are_the_same_in_both_languages() -> None:
    for text, german in GERMAN_TEXTS.items():
        if text in help_texts():  # options and commands, but braces are no places
            assert sorted(re.findall(r"--[a-z-]+", text)) == sorted(re.findall(r"--[a-z-]+", german)), text
        else:
            assert sorted(_places(text)) == sorted(_places(german)), text


def _places(text: str) -> list[tuple[str, str | None]]:
    return [(name, form) for _, name, form, _ in Formatter().parse(text) if name is not None]


def test_help_is_german_in_a_german_locale() -> None:
    shown = program("revert", "--help", environment=GERMAN).stdout  # click names types when they are imported
    assert "Konten zurücknehmen, die nicht freigegeben wurden." in shown
    assert "--file DATEI Datei mit externen Kontonummern, eine je Zeile." in " ".join(shown.split())
    assert "Beispiel:\n    importledger revert NORDWIND" in shown
    groups = cli("--help", environment=GERMAN).stdout
    assert "\nPrüfung:\n" in groups
    assert re.search(r"release +Konten freigeben, sodass", groups)


def test_errors_of_arguments_are_german() -> None:
    missing = cli("revert", environment=GERMAN, check=False)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr.startswith("importledger: Es fehlt das Argument 'SUPPLIER'.\n")


@pytest.mark.parametrize(
    ("values", "expected"),
    [(("", "de_AT.UTF-8", "en_US.UTF-8"), True), (("en_US.UTF-8", "", "de_DE.UTF-8"), False), (("", "", ""), False)],
)
def test_the_first_variable_that_is_set_decides(
    values: tuple[str, ...], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in zip(("LC_ALL", "LC_MESSAGES", "LANG"), values, strict=True):
        monkeypatch.setenv(name, value)
    assert is_german() == expected


def test_sentences_of_other_packages_are_found_with_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    for text, german in GERMAN_TEXTS.items():
        values = {name: f"value-{number}" for number, name in enumerate(dict(_places(text)))}
        if values and text not in REQUIRED and "!r" not in text and not any(form for _, form in _places(text)):
            assert translated(text.format_map(values)) == german.format_map(values)
    assert translated("MISSING  1,000 events in all") == "MISSING  insgesamt 1.000 Ereignisse"


def test_numbers_have_the_signs_of_the_language(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"events": counted(1, "event"), "seconds": 1.5, "rate": 12_000.0}
    text = "{events} hashed again in {seconds:.1f} s, {rate:,.0f} a second"
    assert _(text, **seconds) == "1 event hashed again in 1.5 s, 12,000 a second"
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert _(text, **seconds | {"events": counted(2000, "event")}) == (
        "2.000 Ereignisse in 1,5 s neu berechnet, 12.000 je Sekunde"
    )


def test_findings_of_doctor_are_german(folder: Path) -> None:
    shown = cli("doctor", environment=GERMAN | {"IMPORTLEDGER_DATA_DIR": str(folder)}, check=False).stdout
    assert re.search(r"^gut +settings +Alle Einstellungen sind gültig\.$", shown, re.M)
    assert re.search(r"^falsch +database +Die Datenbank ist nicht erreichbar: ", shown, re.M)
    assert re.search(r": \d+ gut, \d+ Warnung, \d+ falsch\.$", shown, re.M)


@pytest.mark.parametrize(("answer", "is_confirmed"), [("j", True), ("Ja", True), ("n", False), ("", False)])
def test_a_confirmation_takes_german_answers(monkeypatch: pytest.MonkeyPatch, answer: str, is_confirmed: bool) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")

    @click.command()
    @click.confirmation_option(cls=Confirmation, prompt="Erase payloads, key and platform records permanently. Go on?")
    def erase() -> None:
        click.echo("confirmed")

    output = CliRunner().invoke(erase, input=f"{answer}\n").output
    assert "endgültig gelöscht. Fortfahren? [j/N]: " in output
    assert ("confirmed" in output) == is_confirmed
