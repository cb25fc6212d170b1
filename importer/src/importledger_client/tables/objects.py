"""Read JSON files as tables: one object, a list of objects, or an object a line. Members of inner objects are columns.

A column's name is the path of a member: `partneradresse.ort`, `zaehlwerke.0.obisKennzahl`.
"""

import json
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import msgspec

from importledger_client.language import _
from importledger_client.sources import Unreadable, opened
from importledger_client.tables.table import Cell, Count, Doubts

_objects = msgspec.json.Decoder(list[msgspec.Raw])
_object = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)
_BLANKS = " \t\r\n,[]"


class Objects:
    """A JSON file. The first object is row 2, like the first row below a header."""

    written = "JSON"

    def __init__(self, name: str) -> None:
        self.name = self.label = name
        self.doubts = Doubts()
        with opened(name) as stream:
            self._content = stream.read().removeprefix(b"\xef\xbb\xbf").strip()
        self._names = list(dict.fromkeys(path for __, row in self._flat() for path, __ in row))

    def header(self) -> list[str]:
        return self._names

    def rows(self) -> Iterator[tuple[int, list[Cell]]]:
        for number, row in self._flat():
            cells = {path: value for path, value in row if value not in (None, "")}
            yield number, [cells.get(name) for name in self._names]

    def recount(self) -> Count:
        """Count again with Python's own JSON reader, which also counts members that have a name twice."""
        count, places = Count(), {name: place for place, name in enumerate(self._names)}
        reader, text, position = json.JSONDecoder(object_pairs_hook=_Pairs), self._content.decode(), 0
        while position < len(text):
            if text[position] in _BLANKS:
                position += 1
                continue
            value, position = reader.raw_decode(text, position)
            count.add([])
            for path, inner in _leaves(value, ""):
                if inner not in (None, ""):
                    count.filled[places[path]] += 1
        return count

    def _flat(self) -> Iterator[tuple[int, list[tuple[str, Any]]]]:
        """Yield the objects with their numbers, each as its paths and values."""
        number = 1
        try:
            for number, content in enumerate(self._parts(), 2):
                yield number, [*_leaves(_object.decode(content), "")]
        except (msgspec.MsgspecError, ValueError, RecursionError, ArithmeticError) as error:
            place = f"{self.name}, {_('row')} {number}"
            raise Unreadable("{place} must be a JSON object: {error}.", place=place, error=error) from None

    def _parts(self) -> Iterable[bytes | msgspec.Raw]:
        if self._content.startswith(b"["):
            return _objects.decode(self._content)
        lines = self._content.splitlines()
        is_object_a_line = len(lines) > 1 and lines[0].rstrip().endswith(b"}")
        return [line for line in lines if line.strip()] if is_object_a_line else [self._content]


class _Pairs(list[Any]):
    """The members of an object, with their names."""


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the scalar values in an object or list, with their paths."""
    match value:
        case dict():
            members: Iterable[tuple[Any, Any]] = value.items()
        case _Pairs():
            members = value
        case list():
            members = enumerate(value)
        case _:
            yield path, value
            return
    for name, inner in members:
        yield from _leaves(inner, f"{path}.{name}" if path else str(name))
