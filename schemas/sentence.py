"""Sentences for people, in English and in German side by side.

A `Sentence` is a str in English. `api.http.languages` chooses the language when it encodes an answer.
"""

from typing import Any


class Sentence(str):
    """English sentence with its German form. Values replace `{name}` in both, each in its own language."""

    __slots__ = ("german",)

    german: str

    def __new__(cls, english: str, german: str, **values: Any) -> "Sentence":
        if values:
            english = english.format_map(values)
            german = german.format_map({name: german_of(value) for name, value in values.items()})
        sentence = super().__new__(cls, english)
        sentence.german = german
        return sentence

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # it is pickled with both languages
        return str(self), self.german


def german_of(value: Any) -> Any:
    """Return the German form of a sentence, and any other value unchanged."""
    return value.german if isinstance(value, Sentence) else value
