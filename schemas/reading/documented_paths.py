"""Paths of problems without names that the importer has chosen, for logs and counts, which must contain no values."""

import re
from collections.abc import Iterator

from msgspec import inspect

from schemas.account import WrappedAccount
from schemas.delivery_note import DeliveryNoteImport
from schemas.energy_amount import EnergyAmountImport
from schemas.invoice import MarketParticipantInvoiceImport

UNDOCUMENTED = "*"
"""Placeholder for an undocumented name."""

_is_index = re.compile(r"[0-9]{1,4}\Z").match
"""An array has at most 10,000 items. Longer numbers are names, such as phone numbers or dates of birth."""


def documented_path(attr: str) -> str:
    """Return the path with its indexes, and with * for undocumented names: `customers.0.*`."""
    return ".".join(step if step in _FIELDS or _is_index(step) else UNDOCUMENTED for step in attr.split("."))


def path_pattern(attr: str) -> str:
    """Return the path with [] for indexes of arrays, and with * for undocumented names: `customers[].*`."""
    steps = documented_path(attr).split(".")
    return "".join("[]" if _is_index(step) else f".{step}" for step in steps).removeprefix(".")


def _names(node: inspect.Type) -> Iterator[str]:
    match node:
        case inspect.UnionType(types=types):
            for member in types:
                yield from _names(member)
        case inspect.VarTupleType(item_type=item):
            yield from _names(item)
        case inspect.StructType(fields=fields):
            for field in fields:
                yield field.encode_name
                yield from _names(field.type)
        case _:
            pass


_FIELDS = frozenset(
    name
    for wire_type in (WrappedAccount, DeliveryNoteImport, EnergyAmountImport, MarketParticipantInvoiceImport)
    for name in _names(inspect.type_info(wire_type))
) | {"non_field_errors"}
