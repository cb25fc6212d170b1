"""Sentences for people: each is written once, in English and in German side by side.

English is what a sentence is wherever nobody asks: a `Sentence` is a str. Which of the two is answered is decided where
the answer is encoded (`api.http.languages`), so that nothing in between has to know.
"""

from typing import Any


class Sentence(str):
    """An English sentence that knows itself in German. Values stand in both at `{name}`, in their own language."""

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
    """The German form of a sentence; any other value as it is."""
    return value.german if isinstance(value, Sentence) else value
