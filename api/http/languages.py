"""In which language sentences are answered: English, or German for whoever prefers it (`Accept-Language`).

Only answers that hold sentences are asked about; codes, paths and values are the same in both languages.
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
    """The language that a header prefers (RFC 9110, 12.5.4): by quality, then by order; English where it names none.

    A range stands for all of its regions: `de`, `de-DE` and `de-AT` are German. What is not understood is ignored.
    """
    german, english = _weight(header, "de"), _weight(header, "en")
    return "de" if german > english else "en"


def language_of(request: HTTPConnection) -> Language:
    """The language that the request prefers."""
    headers = request.headers.getlist("accept-language")
    return preferred(",".join(headers)) if headers else "en"


def language_headers(language: Language) -> dict[str, str]:
    """What an answer with sentences says of its language."""
    return {"Content-Language": language, "Vary": "Accept-Language"}


def _weight(header: str, language: Language) -> tuple[float, int]:
    """How much the header prefers a language: by quality, then by order. A language that only `*` covers comes last."""
    named: list[tuple[float, int]] = []
    by_star: list[tuple[float, int]] = []
    for place, part in enumerate(header.split(",")):
        if (match := _RANGE.fullmatch(part.strip())) is None:
            continue
        quality = min(float(match[2] or 1), 1.0)
        if match[1] == "*":
            by_star.append((quality, -place))
        elif match[1].lower().split("-")[0] == language:
            named.append((quality, -place))
    weight = max(named or by_star, default=(0.0, 0))
    return weight if weight[0] else (0.0, 0)


def _speaking(language: Language) -> Callable[[Any], str]:
    def said(value: Any) -> str:
        if isinstance(value, Sentence):
            return value.german if language == "de" else str(value)
        raise NotImplementedError(f"{type(value).__name__} cannot be answered")

    return said


SPEAKING: dict[Language, Callable[[Any], str]] = {"en": _speaking("en"), "de": _speaking("de")}
"""What an encoder makes of a `Sentence`, by language: the hook for what it does not know."""

JSON: dict[Language, msgspec.json.Encoder] = {
    language: msgspec.json.Encoder(decimal_format="string", enc_hook=hook) for language, hook in SPEAKING.items()
}
"""Encoders of answers; decimals as text."""
