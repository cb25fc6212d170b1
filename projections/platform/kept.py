"""An account as it is read for its rows, which takes a fifth less than to make them of what was judged.

Moments stay the text that was sent: those from which something is valid come again and again, and how Postgres is told
of each is looked up by it. Objects of lists that are columns have their members in the order in which Postgres keeps
them, so that the lists are written as they are.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, inspect

from projections.platform.kinds import TABLE_OF_FIELD, folded_type, place_of_member
from schemas.account import Account
from schemas.base import DecimalText, Moment
from schemas.decimals import SomeText, decimals_hold, exact_number
from schemas.derived import Field, derived, is_shape, retyped
from schemas.gathering import gathering
from schemas.submission import is_wrapped, stored_submission

T = TypeVar("T")

_MomentText = Annotated[str, Meta(min_length=1, max_length=40)]
"""A moment with microseconds and a zone has 32 characters. Fractions may have any number of digits: a text that is
remembered must not, and one with more is read the exact way."""


@cache
def kept_shape(wire_type: type[T], *, is_folded: bool = False) -> type[T]:
    """A shape with the fields of `wire_type`: moments are text, and so are decimals of any form.

    With `is_folded` its objects are written into a column as they are read.
    """

    def kept(field: msgspec.structs.FieldInfo) -> Field:
        is_below = is_folded or (field.name not in TABLE_OF_FIELD and _is_list(field.type))
        typed = retyped(field.type, lambda hint: _kept(hint, is_folded=is_below))
        return (field.name, typed) if field.required else (field.name, typed, field.default)

    node = inspect.type_info(wire_type)
    assert isinstance(node, inspect.StructType)
    return derived(wire_type, kept, order=place_of_member if is_folded and folded_type(node) == "jsonb" else None)


def _is_list(hint: Any) -> bool:
    return isinstance(inspect.type_info(hint), inspect.VarTupleType)


def _kept(hint: Any, *, is_folded: bool) -> Any:
    if hint in (Moment, datetime):
        return _MomentText
    if hint == DecimalText:
        return SomeText
    return kept_shape(hint, is_folded=is_folded) if is_shape(hint) else hint


_decode: Callable[[bytes], Account] = msgspec.json.Decoder(kept_shape(Account), float_hook=exact_number).decode


def kept_account(body: bytes, *, is_judged: bool = False) -> Account:
    """The account in a body that was imported, for making rows of it; whatever it costs. Raises NotJson.

    It has text where `Account` has datetimes, or datetimes where it had to be read the exact way. With `is_judged` the
    shapes of today have taken it before, and a moment in short form is found out by whoever makes rows of it.
    """
    if not is_wrapped(body):
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            account = _decode(body)
            if decimals_hold(account, Account) and (is_judged or _moments_hold(account)):
                return account
    return stored_submission(body).account


class _Known(dict[str, bool]):
    """The texts that say a moment; an empty one stands for what is absent. What says none is not kept."""

    def __init__(self, *, needs_zone: bool) -> None:
        super().__init__()
        self._needs_zone = needs_zone

    def __missing__(self, text: str) -> bool:
        if len(self) >= _MOST_REMEMBERED:
            self.clear()
        try:
            holds = not text or moment_of(text).tzinfo is not None or not self._needs_zone
        except msgspec.ValidationError:
            holds = False
        if holds:
            self[text] = True
        return holds


def moment_of(text: str) -> datetime:
    """The moment that a text says; without zone where it says none. Raises ValidationError for one in short form."""
    return msgspec.convert(text, datetime)


def _places(*, needs_zone: bool) -> Callable[[Any], list[str]]:
    """What lists the texts that stand for these moments."""
    tz = True if needs_zone else None
    return gathering(Account, lambda kind: isinstance(kind, inspect.DateTimeType) and kind.tz is tz)


_MOST_REMEMBERED = 20_000
_MOMENTS = tuple((_places(needs_zone=zoned), _Known(needs_zone=zoned).__getitem__) for zoned in (True, False))


def _moments_hold(account: Account) -> bool:
    """Whether what stands for datetimes is what the shape takes for them."""
    return all(all(map(is_known, gather(account))) for gather, is_known in _MOMENTS)
