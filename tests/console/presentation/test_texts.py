"""Every text of the console has a German one."""

import re
from pathlib import Path

import pytest
from babel.messages.extract import extract_from_dir

from console.presentation.texts import LOCALE, catalogue, translations

CONSOLE = LOCALE.parent
METHODS = [("templates/**.html", "jinja2"), ("**.py", "python")]
OPTIONS = {"templates/**.html": {"trimmed": "true"}}
KEYWORDS = {"_": None, "N_": None, "gettext": None, "ngettext": (1, 2)}


def used_texts() -> dict[str, str]:
    """Every text of templates and code, with its file and line."""
    texts: dict[str, str] = {}
    for file, line, message, _, _ in extract_from_dir(CONSOLE, METHODS, OPTIONS, KEYWORDS):
        key = message if isinstance(message, str) else message[0]
        texts.setdefault(key, f"{file}:{line}")
    return texts


def in_german() -> dict[str, tuple[str, ...]]:
    whole = {}
    for message in catalogue("de"):
        if message.id:
            key = message.id if isinstance(message.id, str) else message.id[0]
            whole[key] = (message.string,) if isinstance(message.string, str) else tuple(message.string or ())
    return whole


def test_every_text_is_there_in_german() -> None:
    known = in_german()
    assert {text: place for text, place in used_texts().items() if not all(known.get(text, ("",)))} == {}


def test_the_catalogue_has_no_unused_text() -> None:
    assert sorted(set(in_german()) - set(used_texts())) == []


def test_places_for_values_are_the_same_in_both_languages() -> None:
    places = re.compile(r"%\((\w+)\)s")
    for text, strings in in_german().items():
        for string in strings:
            assert set(places.findall(string)) - set(places.findall(text)) == set(), text


def test_a_catalogue_is_german() -> None:
    assert translations("de").ugettext("Sign in") == "Anmelden"
    assert translations("en").ugettext("Sign in") == "Sign in"


@pytest.mark.asvs("V3.4.3")
@pytest.mark.parametrize("file", sorted(CONSOLE.rglob("*.html")), ids=lambda file: file.name)
def test_templates_hold_nothing_that_the_policy_forbids(file: Path) -> None:
    text = file.read_text()
    assert re.findall(r"\sstyle=|\son[a-z]+=|<style|javascript:|\|safe|autoescape", text) == []
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))


@pytest.mark.asvs("V3.5.1")
@pytest.mark.parametrize("file", sorted(CONSOLE.rglob("*.html")), ids=lambda file: file.name)
def test_every_form_that_is_posted_carries_its_token(file: Path) -> None:
    for form in re.findall(r'<form[^>]*method="post".*?</form>', file.read_text(), re.DOTALL):
        assert "{{ csrf }}" in form
