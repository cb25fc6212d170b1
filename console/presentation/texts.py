"""Texts in the language of whoever looks: English stands in the code, German in the gettext catalogues of `locale/`.

The catalogues are read as they are written (`.po`) when the process starts, so that none can be out of date.
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
"""What there is, each by its own name."""


def N_(text: str) -> str:  # noqa: N802 - gettext's name for it, which its tools know
    """Marks a text that is translated where it is shown."""
    return text


def catalogue(language: Language) -> Catalog:
    """All texts of a language. Raises ValueError where two files say the same differently."""
    whole = Catalog(locale=language)
    for file in sorted((LOCALE / language).glob("*.po")):
        with file.open("rb") as opened:
            for message in read_po(opened, locale=language, abort_invalid=True):
                if not message.id:
                    continue
                known = whole.get(message.id, message.context)
                if known is not None and known.string != message.string:
                    raise ValueError(f"{file.name} says {message.id!r} otherwise than another file.")
                whole.add(message.id, message.string, context=message.context)
    return whole


@cache
def translations(language: Language) -> Translations:
    """What says a text in this language; itself where it is not in the catalogue."""
    compiled = io.BytesIO()
    write_mo(compiled, catalogue(language))
    compiled.seek(0)
    return Translations(compiled)
