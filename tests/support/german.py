"""Distinguish German sentences from English ones, and compare texts with the terms of the glossary."""

import re
from collections.abc import Mapping
from pathlib import Path

_ENGLISH = re.compile(
    r"\b(the|this|is|not|of|and|may|must|has|have|there|are|most|field|value|given|no|valid|expected|only|takes|too)\b"
)


def is_german(sentence: str) -> bool:
    """Return True for a sentence without any of the most frequent English words."""
    prose = re.sub(r"„[^“]*“|`[^`]*`|[a-z]+_[a-z_]+", "", sentence)
    return bool(sentence) and not _ENGLISH.search(prose.lower())


_GLOSSARY = (Path(__file__).parents[2] / "docs" / "reference" / "glossary.md").read_text().partition("## On screens")[2]
TERMS = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]*)\|$", _GLOSSARY.replace("| English | German | not |", ""), re.M)
"""English terms, their German terms, and German words that are not used for them."""


def texts_without_term(texts: Mapping[str, str], english: str, german: str) -> list[str]:
    """Return English texts that name a term whose translation lacks the German term.

    German words are compared by their beginnings, since they have endings.
    """
    named = re.compile(rf"\b({english.replace(', ', '|')})s?\b", re.I)
    stems = [word[:4].lower() for word in german.split(", ")]
    return [text for text in texts if named.search(text) and not any(s in texts[text].lower() for s in stems)]


def texts_with(texts: Mapping[str, str], words: str) -> list[str]:
    """Return German texts that have one of the words, which commas separate."""
    return [
        text
        for word in filter(None, words.strip().split(", "))
        for text in texts.values()
        if re.search(rf"\b{word}", text)
    ]
