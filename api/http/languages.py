"""Language of the sentences in answers: English, or German if the caller prefers it (`Accept-Language`).

Only sentences differ. Codes, paths and values are the same in both languages.
"""

import re
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from starlette.requests import HTTPConnection

from schemas.sentence import Sentence

Language = Literal["en", "de"]

_RANGE = re.compile(r"([a-z]{1,8}(?:-[a-z0-9]{1,8})*|\*)(?:\s*;\s*q\s*=\s*([01](?:\.[0-9]{0,3})?))?", re.IGNORECASE)


def preferred(header: str) -> Language:
    """Return the language that a header prefers (RFC 9110, 12.5.4): by quality, then by order [default: English].

    Regions make no difference: `de`, `de-DE` and `de-AT` are German. Malformed parts are ignored.
    """
    german, english = _weight(header, "de"), _weight(header, "en")
    return "de" if german > english else "en"


def language_of(request: HTTPConnection) -> Language:
    """Return the language that the request prefers."""
    headers = request.headers.getlist("accept-language")
    return preferred(",".join(headers)) if headers else "en"


def language_headers(language: Language) -> dict[str, str]:
    """Return the header fields of an answer that has sentences in this language."""
    return {"Content-Language": language, "Vary": "Accept-Language"}


def _weight(header: str, language: Language) -> tuple[float, int]:
    """Return the header's preference for a language as (quality, order).

    A language that only `*` covers has the last order.
    """
    named: list[tuple[float, int]] = []
    by_star: list[tuple[float, int]] = []
    for position, part in enumerate(header.split(",")):
        if (match := _RANGE.fullmatch(part.strip())) is None:
            continue
        quality = min(float(match[2] or 1), 1.0)
        if match[1] == "*":
            by_star.append((quality, -position))
        elif match[1].lower().split("-")[0] == language:
            named.append((quality, -position))
    weight = max(named or by_star, default=(0.0, 0))
    return weight if weight[0] else (0.0, 0)


def _hook(language: Language) -> Callable[[Any], str]:
    def text(value: Any) -> str:
        if isinstance(value, Sentence):
            return value.german if language == "de" else str(value)
        raise NotImplementedError(f"{type(value).__name__} cannot be answered")

    return text


SENTENCE_HOOKS: dict[Language, Callable[[Any], str]] = {"en": _hook("en"), "de": _hook("de")}
"""Hooks of encoders that turn a `Sentence` into text, by language."""

JSON: dict[Language, msgspec.json.Encoder] = {
    language: msgspec.json.Encoder(decimal_format="string", enc_hook=hook) for language, hook in SENTENCE_HOOKS.items()
}
"""Encoders of answers. Decimals become text."""
