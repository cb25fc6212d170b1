"""Texts in the reader's language: English texts are in the code and the templates, German texts in `console/locale/de`.

The catalogue is read from its source (`.po`) at the first use, so that no compiled catalogue can be out of date.
"""

import io
from functools import cache
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.support import Translations

from api.http.languages import Language

LOCALE = Path(__file__).parent.parent / "locale"
LANGUAGES: dict[Language, str] = {"de": "Deutsch", "en": "English"}
"""The languages, each by its own name."""


def N_(text: str) -> str:  # noqa: N802 - gettext's name for it, which its tools know
    """Mark a text for translation. The text is translated when it is rendered."""
    return text


def catalogue(language: Language, locale: Path = LOCALE, name: str = "console") -> Catalog:
    """Return all texts of a language in a folder. English has no catalogue, because English texts are the keys."""
    file = locale / language / f"{name}.po"
    if not file.exists():
        return Catalog(locale=language)
    with file.open("rb") as opened:
        return read_po(opened, locale=language, abort_invalid=True)


@cache
def translations(language: Language, locale: Path = LOCALE, name: str = "console") -> Translations:
    """Return the translator into a language. A text that is not in the catalogue stays unchanged."""
    compiled = io.BytesIO()
    write_mo(compiled, catalogue(language, locale, name))
    compiled.seek(0)
    return Translations(compiled)
