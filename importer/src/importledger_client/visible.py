"""Text of others on a terminal: what a reader would not see, or a terminal would obey, is written out."""

import unicodedata

_KEPT = frozenset("\n\t")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
r"""Control characters, bidirectional marks, characters without width, line and paragraph separators."""


def visible(text: str) -> str:
    r"""The text with each such character as its escape, like \x1b."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(c) if c not in _KEPT and unicodedata.category(c) in _HIDDEN else c for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
