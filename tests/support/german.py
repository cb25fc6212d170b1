"""Distinguish German sentences from English ones."""

import re

_ENGLISH = re.compile(
    r"\b(the|this|is|not|of|and|may|must|has|have|there|are|most|field|value|given|no|valid|expected|only|takes|too)\b"
)


def is_german(sentence: str) -> bool:
    """Return True for a sentence without any of the most frequent English words."""
    prose = re.sub(r"„[^“]*“|`[^`]*`|[a-z]+_[a-z_]+", "", sentence)
    return bool(sentence) and not _ENGLISH.search(prose.lower())
