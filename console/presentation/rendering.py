"""Rendering of pages: a Jinja environment for each language, with its texts and filters.

All inserted values are escaped. Every page has a content security policy.
"""

import hashlib
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from api.description.catalogue import CATALOGUE
from api.http.languages import Language
from console.presentation.formats import Formats
from console.presentation.importer_text import REMEDIES
from console.presentation.names import NAMES, TONES
from console.presentation.texts import LANGUAGES, translations

HERE = Path(__file__).parent.parent
ASSETS = {
    file.name: file
    for folder in ("assets", "vendor/htmx", "vendor/uplot")
    for file in (HERE / folder).iterdir()
    if file.suffix in (".js", ".css", ".svg")
}
"""Files that pages load, by name."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "Vary": "Accept-Language, Cookie, HX-Request",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of every answer: no content from other sites, no inline script, no frames, no caching."""
OVER_TLS = {"Strict-Transport-Security": "max-age=31536000"}


def asset(name: str) -> str:
    """Return the address of a file, which changes with the file, so that browsers can cache the file permanently."""
    return f"/console/assets/{name}?v={_version(name)}"


def segment(text: str) -> str:
    """Quote a supplier code or an account number as one segment of an address."""
    return quote(text, safe="")


@cache
def _version(name: str) -> str:
    return hashlib.sha256(ASSETS[name].read_bytes()).hexdigest()[:12]


@cache
def environment(language: Language) -> Environment:
    """Return the environment of a language."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
        auto_reload=False,
    )
    made.policies["ext.i18n.trimmed"] = True
    made.install_gettext_translations(translations(language), newstyle=True)  # type: ignore[attr-defined]
    made.filters.update(Formats(language).filters(), segment=segment, word=shlex.quote, breakable=_breakable)
    made.globals.update(asset=asset, language=language, languages=LANGUAGES, tones=TONES)
    made.globals["faults"] = {entry.code: entry.sentence for entry in CATALOGUE if entry.rules}
    made.globals["remedies"] = REMEDIES
    for table, names in NAMES.items():
        made.globals[table] = {name: translations(language).ugettext(text) for name, text in names.items()}
    return made


def _breakable(name: str) -> Markup:
    """Return a code or a path that a line of a narrow column may break after each `_` and `.`."""
    return Markup("<wbr>").join(re.split(r"(?<=[_.])", name))


def rendered(template: str, language: Language, **values: Any) -> str:
    """Render a template."""
    return environment(language).get_template(template).render(**values)
