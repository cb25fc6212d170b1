"""Reader of JSON bodies as wire shapes, which finds every shape error of a body that does not fit.

The fast path is msgspec's typed decoder, which stops at the first shape error. A body that the fast path refuses is
decoded untyped, and a walk compares it with the shape: `Shape.fit` gives each shape error its exact path and a code of
Django REST framework. The walk also accepts JSON numbers for decimals, which the fast path refuses. The result of the
walk passes `msgspec.convert`, so the walk cannot add an invalid value.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec import inspect

from schemas.base import DECIMAL_PATTERN, DOT_SEGMENTS, MARKET_TIME, Problem, instant
from schemas.reading import shape_errors
from schemas.reading.duplicate_names import has_larger_object, name_errors, repeated_names, repeats_names
from schemas.reading.field_names import named
from schemas.reading.nesting import Holder, holders_of, is_read_shallow, is_shallow
from schemas.reading.problems import MAX_STEP, UNKNOWN_FIELD, ProblemList, attr_of
from schemas.reading.work import REQUEST_BOUNDS, STORED_BOUNDS, Bounds, TooMuchWork, Work
from schemas.sentence import Sentence

MAX_HINTS = 20
"""Undocumented names of a body for which the nearest documented name is searched, since each search is slow."""

LARGE_BYTES = 300_000
"""Size above which the limits of memory are checked [bytes]. Smaller bodies cannot reach them."""
_BEGINNING_BYTES = 100_000
"""Length of a body's beginning whose nesting is checked first [bytes]."""

T = TypeVar("T")

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?\Z")
_DECIMAL = re.compile(DECIMAL_PATTERN)
_MOMENT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2})(:[0-9]{2}(?:\.[0-9]+)?)?([Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?\Z"
)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def exact_number(text: str) -> Decimal:
    """Return a JSON number as Decimal, for decoders. Raises ValueError for an exponent that no Decimal can have."""
    try:
        return Decimal(text)
    except ArithmeticError:
        raise ValueError("Number out of range") from None


def number_texts(value: dict[str, Any], wire_type: type) -> Iterator[str]:
    """Yield the texts in an untyped body at paths where the shape has decimals.

    The body must fit the shape. The caller must check the texts, because msgspec accepts `1_0`, `sNaN`, blanks around a
    number and digits of all scripts.
    """
    return _texts_at(value, holders_of(wire_type, (inspect.DecimalType,)))


def _texts_at(value: dict[str, Any], holders: tuple[Holder, ...]) -> Iterator[str]:
    for name, many, below in holders:
        inner = value.get(name)
        for item in inner or () if many else (inner,):
            if type(item) is str:
                yield item
            elif item is not None:
                yield from _texts_at(item, below)


_untyped = msgspec.json.Decoder(float_hook=exact_number)


class NotJson(Exception):
    """The body is not a valid JSON document. `detail` has the place of the error."""

    def __init__(self, detail: Sentence) -> None:
        super().__init__(detail)
        self.detail = detail


class Shape(Generic[T]):
    """Reader of bodies as `T`. Build shapes at import time: building them in two threads at a time crashes msgspec."""

    def __init__(self, wire_type: type[T]) -> None:
        self.wire_type = wire_type
        msgspec.json.Decoder(wire_type)

    def examine(self, body: bytes, bounds: Bounds = REQUEST_BOUNDS) -> tuple[T, Sequence[Problem]]:
        """Return the body, with stand-ins for values that do not fit, and its shape errors.

        Raises NotJson, TooMuchWork.
        """
        if detail := _exceeded_limit(body, bounds):
            return self._name_errors(body, detail)
        try:
            value = _untyped.decode(body) if len(body) <= LARGE_BYTES else _read(body, bounds)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            value = _read(body, bounds)  # read the body again, which raises NotJson with the reason
        repeats = repeats_names(body, value)
        if not repeats and b"\\u0000" not in body:
            try:
                typed = msgspec.convert(value, self.wire_type)
            except (msgspec.ValidationError, RecursionError):
                pass
            else:
                if not is_read_shallow(typed, self.wire_type, bounds.depth):
                    raise NotJson(shape_errors.DEEP_BODY)
                # Bodies from the log were accepted with any spelling of numbers.
                if bounds is STORED_BOUNDS or all(map(_NUMBER.match, number_texts(value, self.wire_type))):
                    return typed, ()
        if not is_shallow(value, bounds.depth):
            raise NotJson(shape_errors.DEEP_BODY)
        repeated: Sequence[Problem] = ()
        if repeats:
            try:
                repeated = repeated_names(body, math.inf if bounds is STORED_BOUNDS else bounds.depth)
            except RecursionError:
                raise NotJson(shape_errors.DEEP_BODY) from None
            if not repeated and bounds is not STORED_BOUNDS:
                raise TooMuchWork  # a value is lost, and the scan has not found its name in time
        return self.fit(value, repeated, bounds)

    def _name_errors(self, body: bytes, detail: Sentence) -> tuple[T, Sequence[Problem]]:
        """Return the shape errors in names of a body that is too large to decode.

        Raises NotJson, TooMuchWork. `detail` names the limit that the body exceeds.
        """
        _refuse_deep(body[:_BEGINNING_BYTES])
        node = inspect.type_info(self.wire_type)
        if isinstance(node, inspect.StructType):
            documented = frozenset(field.encode_name for field in node.fields)
            if problems := name_errors(body, documented):
                body_problem = Problem("non_field_errors", "max_length", detail)
                return msgspec.convert(_placeholder(node), self.wire_type), [body_problem, *map(self._named, problems)]
        raise TooMuchWork(detail)

    def stored(self, body: bytes) -> T:
        """Read a body from the log, without limits. Raises NotJson."""
        return self.examine(body, STORED_BOUNDS)[0]

    def fit(
        self, value: Any, name_problems: Sequence[Problem] = (), bounds: Bounds = REQUEST_BOUNDS
    ) -> tuple[T, Sequence[Problem]]:
        """Return a decoded value and its shape errors, with the problems `name_problems` at the end."""
        wire_type = cast(type, self.wire_type)
        walk = _Walk(wire_type, bounds)
        fitted = walk.fitted(value, _type_info(wire_type), ())
        problems = [*walk.shape_errors.problems(), *map(self._named, name_problems)]
        return msgspec.convert(fitted, self.wire_type), problems

    def _named(self, problem: Problem) -> Problem:
        detail = named(cast("Sentence", problem.detail), self.wire_type, problem.attr.split("."))
        return msgspec.structs.replace(problem, detail=detail)


def untyped(body: bytes, bounds: Bounds = REQUEST_BOUNDS) -> Any:
    """Read a body as dicts, lists and scalars, with fractions as Decimal. Raises NotJson, TooMuchWork."""
    if detail := _exceeded_limit(body, bounds):
        raise TooMuchWork(detail)
    return _read(body, bounds)


def _exceeded_limit(body: bytes, bounds: Bounds) -> Sentence | None:
    """Return a sentence on the limit that a body exceeds; None if it exceeds no limit."""
    if len(body) <= LARGE_BYTES:
        return None
    if body.count(b"[") + body.count(b"{") > bounds.containers:
        return shape_errors.too_many_containers(bounds.containers)
    if (values := body.count(b",")) > bounds.values:
        return shape_errors.too_many_values(bounds.values)
    if values > bounds.names and has_larger_object(body, bounds.names):
        return shape_errors.too_many_names(bounds.names)
    return None


def _read(body: bytes, bounds: Bounds) -> Any:
    """Decode a body. Only the number of its decimals is limited."""
    if not body.strip():
        raise NotJson(shape_errors.EMPTY_BODY)
    decoder = _untyped if len(body) <= LARGE_BYTES else msgspec.json.Decoder(float_hook=_Decimals(bounds.decimals))
    try:
        value = decoder.decode(body)
    except UnicodeDecodeError:
        raise NotJson(shape_errors.NO_UTF8) from None
    except RecursionError:
        raise NotJson(shape_errors.DEEP_BODY) from None
    except msgspec.DecodeError as error:
        raise NotJson(shape_errors.malformed(str(error))) from None
    if not is_shallow(value, bounds.depth):
        raise NotJson(shape_errors.DEEP_BODY)
    return value


class _Decimals:
    """Decoder of numbers as Decimal. Raises TooMuchWork if a body has too many such numbers."""

    def __init__(self, most: float) -> None:
        self._most = self._left = most

    def __call__(self, text: str) -> Decimal:
        self._left -= 1
        if self._left < 0:
            raise TooMuchWork(shape_errors.too_many_decimals(self._most))
        return exact_number(text)


def _refuse_deep(beginning: bytes) -> None:
    """Raise NotJson if the beginning of a body is nested too deeply."""
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        try:
            msgspec.json.decode(beginning)
        except RecursionError:
            raise NotJson(shape_errors.DEEP_BODY) from None


def is_in_calendar(moment: datetime) -> bool:
    """Return True if the moment is in the years 1 to 9999 in UTC. Python and the views support no other years."""
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=MARKET_TIME)
    return _FIRST <= zoned <= _LAST


@lru_cache(4096)
def is_real_moment(moment: datetime) -> bool:
    """Return False for a local time that the switch to summer time skips.

    A time that occurs twice means the first occurrence. Returns True at the ends of the calendar, which
    `is_in_calendar` checks.
    """
    if moment.tzinfo is not None or not is_in_calendar(moment):
        return True
    local = moment.replace(tzinfo=MARKET_TIME)
    return local.astimezone(UTC).astimezone(MARKET_TIME).replace(tzinfo=None) == moment


_CERTAINLY_FITS = len("0.") + 10


def fits_decimal(value: Decimal) -> bool:
    """Return True for at most 18 digits before the point and 10 after it.

    Also True for infinity and NaN, which another check refuses.
    """
    text = str(value)
    if len(text) <= _CERTAINLY_FITS and "E" not in text:
        return True
    if not value.is_finite():
        return True
    return (not value or value.adjusted() < 18) and int(value.as_tuple().exponent) >= -10


class Check(msgspec.Struct, frozen=True):
    """Rule of the shape (not of the market) that the decoder does not check."""

    at: str
    holds: Callable[..., object]
    code: str
    says: Sentence


def derived_checks(wire_type: type) -> Iterator[Check]:
    """Yield the checks that remain after decoding, for all paths of the shape. `at` has [] for items of arrays."""
    yield from _derived(inspect.type_info(wire_type), "")


is_not_blank = str.strip
"""Return the text without outer blanks, which is empty, and so false, for a blank text."""


def _derived(node: inspect.Type, at: str) -> Iterator[Check]:
    match node:
        case inspect.UnionType(types=types):
            for member in types:
                yield from _derived(member, at)
        case inspect.StructType(fields=fields):
            for field in fields:
                yield from _derived(field.type, f"{at}.{field.name}" if at else field.name)
        case inspect.VarTupleType(item_type=item):
            yield from _derived(item, f"{at}[]")
        case inspect.DateTimeType(tz=zone):
            yield Check(at, is_in_calendar, "invalid", shape_errors.OUTSIDE_CALENDAR)
            if zone is None:
                yield Check(at, is_real_moment, "invalid", shape_errors.NO_SUCH_TIME)
        case inspect.StrType(min_length=1, pattern=None):
            yield Check(at, is_not_blank, "blank", shape_errors.BLANK)
        case inspect.DecimalType():
            yield Check(at, Decimal.is_finite, "invalid", shape_errors.NO_NUMBER)
            yield Check(at, fits_decimal, "max_digits", shape_errors.TOO_MANY_DIGITS_ON_READING)
        case _:
            pass


@cache
def _type_info(wire_type: type) -> inspect.Type:
    return inspect.type_info(wire_type)


class _Walk:
    """Walk over one value that notes shape errors and returns the value with stand-ins in their positions."""

    def __init__(self, wire_type: type, bounds: Bounds) -> None:
        self.wire_type = wire_type
        self.shape_errors = ProblemList()
        self.noted = 0
        self.hints_left = MAX_HINTS
        self.work = Work(bounds.walk_s)

    def note(self, path: tuple[str, ...], code: str, detail: Sentence) -> None:
        self.noted += 1
        if self.shape_errors.capacity(code).is_full:
            self.shape_errors.capacity(code).left_out += 1
        else:
            self.shape_errors.note(attr_of(path), code, named(detail, self.wire_type, path))

    def fitted(self, value: Any, node: inspect.Type, path: tuple[str, ...]) -> Any:
        match node:
            case inspect.UnionType(types=types):
                if value is None and any(isinstance(member, inspect.NoneType) for member in types):
                    return None
                return self.fitted(value, next(m for m in types if not isinstance(m, inspect.NoneType)), path)
            case inspect.StructType() if isinstance(value, dict):
                return self.struct(value, node, path)
            case inspect.VarTupleType() if isinstance(value, list):
                return self.array(value, node, path)
            case _:
                before = self.noted
                fitted = self.scalar(value, node, path)
                return fitted if self.noted == before else _placeholder(node)

    def scalar(self, value: Any, node: inspect.Type, path: tuple[str, ...]) -> Any:  # noqa: C901 - one match, a case for each kind of value
        match node:
            case inspect.AnyType():
                self.note_null_characters(value, path)
            case _ if value is None:
                self.note(path, "null", shape_errors.NULL)
            case inspect.StructType() | inspect.DictType():
                if not isinstance(value, dict):
                    self.note(path, "invalid", shape_errors.expected(shape_errors.OBJECT, value))
                self.note_null_characters(value, path)
            case inspect.VarTupleType():
                self.note(path, "not_a_list", shape_errors.expected(shape_errors.ARRAY, value))
            case inspect.StrType(pattern=pattern) if pattern == DECIMAL_PATTERN:
                return self.decimal(value, path)
            case inspect.DecimalType():
                return Decimal(self.decimal(value, path) or 0)
            case inspect.StrType():
                self.string(value, node, path)
            case inspect.LiteralType(values=choices):
                if value not in choices or isinstance(value, bool | Decimal):
                    self.note(path, "invalid_choice", shape_errors.no_choice(choices))
            case inspect.BoolType():
                if not isinstance(value, bool):
                    self.note(path, "invalid", shape_errors.expected(shape_errors.BOOLEAN, value))
            case inspect.IntType():
                return self.integer(value, node, path)
            case inspect.DateType() | inspect.DateTimeType():
                return self.moment(value, node, path)
            case _:
                raise NotImplementedError(f"no walk for {node}")
        return value

    def struct(self, value: dict[str, Any], node: inspect.StructType, path: tuple[str, ...]) -> dict[str, Any]:
        self.work.check_time()
        fitted = {}
        fields = _fields(node.cls)
        for name, (field, fits) in fields.items():
            if name in value:
                item = value[name]
                fitted[name] = item if fits(item) else self.fitted(item, field.type, (*path, name))
            elif field.required:
                self.note((*path, name), "required", shape_errors.REQUIRED)
                fitted[name] = _placeholder(field.type)
        if not value.keys() <= fitted.keys():
            self.unknown(value, [*fields], path)
        return fitted

    def unknown(self, value: dict[str, Any], names: list[str], path: tuple[str, ...]) -> None:
        """Note each undocumented name, and for the first few names the nearest documented name."""
        undocumented_names = [name for name in value if name not in names]
        capacity = self.shape_errors.capacity(UNKNOWN_FIELD)
        for index, name in enumerate(undocumented_names):
            if capacity.is_full:
                capacity.left_out += len(undocumented_names) - index
                return
            self.note((*path, name), UNKNOWN_FIELD, self.undocumented(name, names))

    def undocumented(self, name: str, names: list[str]) -> Sentence:
        if len(name) > MAX_STEP or not self.hints_left:
            return shape_errors.UNDOCUMENTED
        self.hints_left -= 1
        nearest = get_close_matches(name, names, n=1)
        return shape_errors.undocumented(nearest[0]) if nearest else shape_errors.UNDOCUMENTED

    def array(self, value: list[Any], node: inspect.VarTupleType, path: tuple[str, ...]) -> list[Any]:
        if node.max_length is not None and len(value) > node.max_length:
            self.note(path, "max_length", shape_errors.too_many_items(node.max_length))
            return []
        return [self.fitted(item, node.item_type, (*path, str(i))) for i, item in enumerate(value)]

    def decimal(self, value: Any, path: tuple[str, ...]) -> str:
        """Return a text or number as plain decimal text, with the submitted scale."""
        if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
            self.note(path, "invalid", shape_errors.expected(shape_errors.DECIMAL, value))
            return ""
        text = str(value) if not isinstance(value, str) else value
        if not _NUMBER.match(text):
            self.note(path, "invalid", shape_errors.NO_NUMBER)
            return ""
        plain = format(Decimal(text), "f")
        if not _DECIMAL.match(plain):
            self.note(path, "max_digits", shape_errors.TOO_MANY_DIGITS)
        return plain

    def text(self, value: str, path: tuple[str, ...]) -> None:
        if "\0" in value:
            self.note(path, "null_characters_not_allowed", shape_errors.NO_NULL_CHARACTERS)

    def string(self, value: Any, node: inspect.StrType, path: tuple[str, ...]) -> None:
        if not isinstance(value, str):
            self.note(path, "invalid", shape_errors.expected(shape_errors.STRING, value))
        elif node.min_length and not value.strip():
            self.note(path, "blank", shape_errors.BLANK)
        elif node.max_length is not None and len(value) > node.max_length:
            self.note(path, "max_length", shape_errors.too_long(node.max_length))
        elif node.pattern is not None and not re.search(node.pattern, value):
            self.note(path, "invalid", shape_errors.DOT_SEGMENT if value in DOT_SEGMENTS else shape_errors.OUTER_BLANKS)
        else:
            self.text(value, path)

    def integer(self, value: Any, node: inspect.IntType, path: tuple[str, ...]) -> Any:
        """Return an integer, also from a number without a fraction such as 6.0."""
        is_integer = isinstance(value, int) or (isinstance(value, Decimal) and value == value.to_integral_value())
        if isinstance(value, bool) or not is_integer:
            self.note(path, "invalid", shape_errors.expected(shape_errors.INTEGER, value))
        elif node.ge is not None and value < node.ge:
            self.note(path, "min_value", shape_errors.too_small(node.ge))
        elif node.le is not None and value > node.le:
            self.note(path, "max_value", shape_errors.too_large(node.le))
        elif not -(2**63) <= value < 2**63:
            self.note(path, "max_value", shape_errors.OUT_OF_RANGE)
        else:
            return int(value)
        return value

    def moment(self, value: Any, node: inspect.Type, path: tuple[str, ...]) -> Any:
        """Return the text of a date or datetime. A datetime without a required zone gets the market's zone."""
        is_date = isinstance(node, inspect.DateType)
        expected_type = shape_errors.DATE if is_date else shape_errors.DATETIME
        if not isinstance(value, str):
            self.note(path, "invalid", shape_errors.expected(expected_type, value))
            return value
        try:
            if is_date:
                msgspec.convert(value, date)
                return value
            value = _completed(value)
            moment = msgspec.convert(value, datetime)
        except msgspec.ValidationError:
            self.note(path, "invalid", shape_errors.not_valid(expected_type))
            return value
        if not is_in_calendar(moment):
            self.note(path, "invalid", shape_errors.OUTSIDE_CALENDAR)
            return value
        if moment.tzinfo is not None:
            return value
        if not is_real_moment(moment):
            self.note(path, "invalid", shape_errors.NO_SUCH_TIME)
            return value
        return _with_zone(moment).isoformat() if getattr(node, "tz", None) else value

    def note_null_characters(self, value: Any, path: tuple[str, ...]) -> None:
        """Note a shape error for null characters in a JSON value, and in the names and values inside it."""
        match value:
            case str():
                self.text(value, path)
            case dict():
                for key, child in value.items():
                    self.text(key, path)
                    self.note_null_characters(child, (*path, key))
            case list():
                for i, child in enumerate(value):
                    self.note_null_characters(child, (*path, str(i)))
            case _:
                pass


@cache
def _fields(struct: type) -> dict[str, tuple[inspect.Field, Callable[[Any], bool]]]:
    """Return the fields of a shape by name, each with a fast check that is True only for valid values."""
    node = _type_info(struct)
    assert isinstance(node, inspect.StructType)
    return {field.encode_name: (field, _fast_check(field.type)) for field in node.fields}


def _fast_check(node: inspect.Type) -> Callable[[Any], bool]:
    match node:
        case inspect.UnionType(types=types):
            checks = [_fast_check(member) for member in types if not isinstance(member, inspect.NoneType)]
            may_be_null = len(checks) < len(types)
            return lambda value: (may_be_null and value is None) or checks[0](value)
        case inspect.StrType(pattern=pattern) if pattern == DECIMAL_PATTERN:
            return lambda value: type(value) is str and _DECIMAL.match(value) is not None
        case inspect.StrType(pattern=None, min_length=least, max_length=most):
            longest = math.inf if most is None else most
            return lambda value: (
                type(value) is str and len(value) <= longest and not (least and not value.strip()) and "\0" not in value
            )
        case inspect.LiteralType(values=choices) if all(isinstance(choice, str) for choice in choices):
            return lambda value: type(value) is str and value in choices
        case inspect.BoolType():
            return lambda value: type(value) is bool
        case inspect.DateTimeType():
            return _is_moment_with_zone
        case _:
            return lambda value: False


def _is_moment_with_zone(value: Any) -> bool:
    if type(value) is not str:
        return False
    try:
        moment = msgspec.convert(value, datetime)
    except msgspec.ValidationError:
        return False
    return moment.tzinfo is not None and is_in_calendar(moment)


def _completed(text: str) -> str:
    """Return a time with the seconds and the minutes of its offset, which ISO 8601 allows to omit."""
    if (match := _MOMENT.match(text)) is None:
        return text
    minutes, seconds, zone = match.groups("")
    return f"{minutes}{seconds or ':00'}{zone}{':00' if len(zone) == 3 else ''}"


def _with_zone(moment: datetime) -> datetime:
    """Return a local time with its offset, or in UTC if the offset was not a whole number of minutes."""
    local = moment.replace(tzinfo=MARKET_TIME)
    offset = local.utcoffset()
    return instant(moment) if offset is None or offset % timedelta(minutes=1) else local


def _placeholder(node: inspect.Type) -> Any:
    """Return a value that fits a type."""
    match node:
        case inspect.UnionType():
            return None  # a field that may be absent is not required, so this field may be null
        case inspect.StructType(fields=fields):
            return {field.encode_name: _placeholder(field.type) for field in fields if field.required}
        case inspect.VarTupleType():
            return []
        case inspect.StrType(pattern=pattern) if pattern == DECIMAL_PATTERN:
            return "0"
        case inspect.StrType():
            return "-"
        case inspect.LiteralType(values=choices):
            return choices[0]
        case inspect.IntType(ge=least):
            return least or 0
        case inspect.DateType():
            return "2000-01-01"
        case inspect.DateTimeType():
            return "2000-01-01T00:00:00Z"
        case inspect.BoolType():
            return False
        case inspect.DecimalType():
            return 0
        case _:
            return {}
