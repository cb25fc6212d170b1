"""Names of fields in words, for sentences about them: "Bank account → IBAN" instead of `bank_account.iban`."""

import re
from collections.abc import Iterator, Sequence
from functools import cache

from msgspec import inspect

from schemas.field_descriptions import field_descriptions
from schemas.sentence import Sentence

FIELD = Sentence("This field ", "Dieses Feld ")
"""Beginning of sentences that are about one field. Its name replaces it."""
_BODY = Sentence("The body", "Der Inhalt")
_ENTRY = Sentence("entry", "Eintrag")
_ACRONYMS = "BDEW EDIFACT EEG EIC GraphQL IBAN ID JVP kWh kWhK MaLo MeLo OBIS SLP SMGW TLP TUM"
_SPELLINGS = {name.lower(): name for name in _ACRONYMS.split()}
_TERM = re.compile(r"\(([^(),;:]+)[^()]*\)")
_NUMBER = re.compile(r"(?<=[a-z])(?=[0-9]+\b)")


def named(sentence: Sentence, wire_type: type, path: Sequence[str]) -> Sentence:
    """Return the sentence with the name of the field at a path. The sentence is unchanged for undocumented fields."""
    if not sentence.startswith(FIELD):
        return sentence
    names = list(_field_names(_type_info(wire_type), path))
    if None in names:
        return sentence
    english, german = str(_BODY), _BODY.german
    if last := [name for name in names if name is not None][-2:]:
        english, german = " → ".join(last), "Das Feld " + " → ".join(name.german for name in last)
    rest, german_rest = sentence.removeprefix(FIELD), sentence.german.removeprefix(FIELD.german)
    return Sentence(f"{english[0].upper()}{english[1:]} {rest}", f"{german} {german_rest}")


def field_label(wire_type: type, path: Sequence[str]) -> Sentence | None:
    """Return the name of the field at a path; for an entry of a list, the name of the list; None for an undocumented
    field.
    """
    names = [*_field_names(_type_info(wire_type), path)]
    return None if None in names else next((name for name in reversed(names) if name is not _ENTRY), None)


def _field_names(node: inspect.Type, path: Sequence[str]) -> Iterator[Sentence | None]:
    """Yield the name of each field on a path, also of an entry at its end; None for an undocumented field."""
    for index, step in enumerate(path):
        while isinstance(node, inspect.UnionType):
            node = next(member for member in node.types if not isinstance(member, inspect.NoneType))
        if isinstance(node, inspect.VarTupleType):
            node = node.item_type
            if index == len(path) - 1:
                yield _ENTRY
        elif isinstance(node, inspect.StructType) and step in (fields := _fields(node.cls)):
            name, node = fields[step]
            yield name
        else:
            yield None
            return


_type_info = cache(inspect.type_info)


@cache
def _fields(struct: type) -> dict[str, tuple[Sentence, inspect.Type]]:
    """Return the names and types of the fields of a struct.

    The German name is the term in brackets in the field's docstring.
    """
    node = inspect.type_info(struct)
    assert isinstance(node, inspect.StructType)
    try:
        descriptions = field_descriptions(struct)
    except OSError:  # the source of the class is not installed
        descriptions = {}
    return {
        field.encode_name: (_field_name(field.encode_name, descriptions.get(field.name, "")), field.type)
        for field in node.fields
    }


def _field_name(name: str, description: str) -> Sentence:
    parts = _NUMBER.sub("_", name).split("_")
    english = " ".join(_SPELLINGS.get(part, part) for part in parts)
    number = f" {parts[-1]}" if parts[-1].isdigit() else ""
    term = _TERM.search(description)
    return Sentence(english, f"{term[1].strip()}{number}" if term else english)
