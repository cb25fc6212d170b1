"""Language of the command line: German if the locale of the environment is German, otherwise English.

English texts are in the code, and German texts in `cli/locale/de`. The help of verbs is translated when it is shown.
"""

import gettext
import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

import click

LOCALE = Path(__file__).parent / "locale"
NAME = "cli"
"""File name of the catalogue."""
WORDS = re.compile(r"[A-Z]{4,}(?: RANGE)?")
"""Placeholders such as OPTIONS or INTEGER RANGE, which are translated if the catalogue has them."""
_GERMAN_SIGNS = {ord(","): ".", ord("."): ","}


def is_german() -> bool:
    """Return True if the environment asks for German, as POSIX says: LC_ALL, else LC_MESSAGES, else LANG."""
    names = (os.environ.get(name, "") for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return next(filter(None, names), "").startswith("de")


def N_(text: str) -> str:  # noqa: N802 - gettext's name for it, which its tools know
    """Mark a text for translation. The text is translated when it is shown."""
    return text


def _(text: str, **values: Any) -> str:
    """Return the text in the user's language, with values in place of `{name}`."""
    if not text or not is_german():
        return text.format_map(values) if values else text
    # imported here: English needs neither the catalogue nor the library that reads it
    from console.presentation.texts import translations

    german = translations("de", LOCALE, NAME).gettext(text)
    return _German().vformat(german, (), values) if values else german


def translated(text: object) -> str:
    """Return an error or a sentence of another package in the user's language. Its values are already in the text."""
    shown = str(text)
    if not is_german():
        return shown
    if german := getattr(text, "german", ""):
        return str(german)
    for pattern, german in _sentences():
        if found := pattern.fullmatch(shown):
            # single words are names, such as codes and numbers of accounts
            return german.format_map({name: translated(v) if " " in v else v for name, v in found.groupdict().items()})
    if number := re.fullmatch(r"([0-9,]+) ([a-z ]+)", shown):
        return f"{number[1].translate(_GERMAN_SIGNS)} {_(number[2])}"
    return shown


@cache
def _sentences() -> list[tuple[re.Pattern[str], str]]:
    """Return a pattern for each text whose places have no format, and its translation. Longer texts are first."""
    from console.presentation.texts import catalogue  # imported here, as above

    texts = {str(message.id): str(message.string) for message in catalogue("de", LOCALE, NAME) if message.id}
    patterns = {text: _pattern(text) for text in sorted(texts, key=len, reverse=True)}
    return [(pattern, texts[text]) for text, pattern in patterns.items() if pattern]


def _pattern(text: str) -> re.Pattern[str] | None:
    """Return a pattern of a text with its values; None if its places have formats, or if it has hardly a word."""
    parts = list(Formatter().parse(text))
    if any(form or conversion for _word, _name, form, conversion in parts) or sum(len(part[0]) for part in parts) < 6:
        return None
    pattern = re.escape(text)
    for name in {name for _word, name, *_format in parts if name}:
        place = re.escape(f"{{{name}}}")
        pattern = pattern.replace(place, f"(?P<{name}>.+)", 1).replace(place, f"(?P={name})")
    return re.compile(pattern, re.DOTALL)


def counted(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun in the user's language. `plural` is the plural unless it is the noun with an s."""
    shown = _German().format_field(number, ",") if is_german() else f"{number:,}"
    return f"{shown} {_(singular if number == 1 else plural or singular + 's')}"


class _German(Formatter):
    """Format of values with the signs of German numbers, such as 1.000,5."""

    def format_field(self, value: Any, format_spec: str) -> str:
        text: str = super().format_field(value, format_spec)
        return text.translate(_GERMAN_SIGNS) if format_spec and isinstance(value, int | float) else text


def translate_click() -> None:
    """Make click translate its own texts, such as errors and headings. click calls these functions of the library."""
    gettext.dgettext = lambda domain, message: _(message)
    gettext.dngettext = lambda domain, msgid1, msgid2, n: _(msgid1 if n == 1 else msgid2)


class Confirmation(click.Option):
    """Option that asks for confirmation in the user's language."""

    def prompt_for_value(self, ctx: click.Context) -> Any:
        question = _(self.prompt or "")
        if not is_german():
            return click.confirm(question)
        answer = str(click.prompt(f"{question} [j/N]", default="n", show_default=False))
        return answer.lower() in ("j", "ja", "y", "yes")


class Help(click.HelpFormatter):
    """Formatter of help in the user's language. The paragraphs of a verb's help, and each option, are texts."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, _words(args), prefix)

    def write_heading(self, heading: str) -> None:
        super().write_heading(_(heading))

    def write_text(self, text: str) -> None:
        super().write_text("\n\n".join(map(_paragraph, text.split("\n\n"))))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(_words(names), _option_help(text)) for names, text in rows], col_max, col_spacing)


class HelpContext(click.Context):
    """Context of a verb whose help is in the user's language."""

    formatter_class = Help


def _paragraph(text: str) -> str:
    """Translate a paragraph. The example, which begins with \\b, keeps its lines."""
    return text.replace("Example:", _("Example:")) if text.startswith("\b") else _(" ".join(text.split()))


def _option_help(text: str) -> str:
    """Translate the help of an option. click has already translated the brackets that it adds."""
    help_text, brackets, extra = text.partition("  [")
    return _(help_text) + brackets + extra


def _words(text: str) -> str:
    return WORDS.sub(lambda word: _(word.group()), text)
