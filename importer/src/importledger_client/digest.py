"""Digest of an account's content. The platform computes the same digest from its rows, in SQL.

An account is written as JSON: a list for each table of the platform, with a list for each row. A row has its ordinal,
the ordinal of its parent, its scalar columns as texts or null, and its JSON columns. Fields that the contract does not
have are left out. Equal accounts may have different digests, for instance for 0.5 and 0.50. Therefore digests only
select accounts, which are then compared field by field.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from importledger_client.contract import ACCOUNT, Field, comparable, in_utc

BUCKETS = tuple(f"{number:03x}" for number in range(4096))
"""Names of the buckets of accounts."""
TEXT_SEPARATOR = "\x1f"
_MAX_CACHED = 20_000

_encode = msgspec.json.Encoder(decimal_format="number").encode


def bucket_of(external: str) -> str:
    """Return the bucket of an account: the first three hexadecimal digits of the SHA-256 of its number."""
    return sha256(external.encode("utf-8", "surrogatepass")).hexdigest()[:3]


def _shape(name: str, fields: Mapping[str, Field]) -> type[msgspec.Struct]:
    """Return the Struct of an object with fields. Absent fields get the same values as in the service."""
    declared: list[tuple[str, Any, Any]] = []
    for field in fields.values():
        inner = _shape(field.name, field.fields) if field.fields else None
        match field.kind:
            case "list":
                declared.append((field.name, list[inner], msgspec.field(default_factory=list)))  # type: ignore[valid-type]
            case "object":
                declared.append((field.name, inner | UnsetType, UNSET))
            case "texts":
                declared.append((field.name, list[str], msgspec.field(default_factory=list)))
            case "text" | "decimal" if not field.is_nullable:
                declared.append((field.name, Any, ""))
            case "boolean" if field.name == "unknown_occupier":
                declared.append((field.name, Any, False))
            case _:
                declared.append((field.name, Any, None if field.is_nullable else UNSET))
    return msgspec.defstruct(name, declared, module=__name__, gc=False, forbid_unknown_fields=True)


class _Cached(dict[Any, Any]):
    """Cache of converted values, since dates, datetimes and prices occur again and again."""

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        super().__init__({UNSET: UNSET, None: None})
        self._convert = convert

    def __missing__(self, value: Any) -> Any:
        if len(self) >= _MAX_CACHED:
            self.clear()
            self.update({UNSET: UNSET, None: None})
        converted = self[value] = self._convert(value)
        return converted


def _column_text(value: Any) -> str:
    """Return a datetime in Postgres' form in UTC."""
    moment = in_utc(value)
    fraction = f"{moment.microsecond:06d}".rstrip("0")
    return f"{moment:%Y-%m-%d %H:%M:%S}" + (f".{fraction}" if fraction else "")


def _number(value: Any) -> str | None:
    """Return a number without trailing zeros."""
    if value == "" or value is None or value is UNSET:
        return None
    if type(value) is str and (value[0] in "123456789" or value.startswith("0.")):
        return value.rstrip("0").rstrip(".") if "." in value else value
    return comparable("decimal", value)


_TEXTS = {
    "text": "{}",
    "decimal": "number({})",
    "integer": "integer({})",
    "boolean": "boolean[{}]",
    "date": "({} or None)",
    "moment": "(moment[{0}] or None)",
    "texts": "separator.join({})",
}
"""Templates of a scalar column's text, by kind."""
_utc: Mapping[Any, datetime] = _Cached(in_utc)


def _source(names: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the function that returns the rows of an account by table."""
    tables = [*_tables(ACCOUNT)]
    yield "def rows(v0):"
    for index in range(1, len(tables) + 1):
        yield f"    r{index} = []"
    yield f"    r0 = [({_row(ACCOUNT, 'v0', names)})]"
    yield from _loops(ACCOUNT, 0, [1], "    ", names)
    yield f"    return [{', '.join(f'r{index}' for index in range(len(tables) + 1))}]"


def _loops(
    fields: Mapping[str, Field], above: int, following: list[int], indent: str, names: dict[str, Any]
) -> Iterator[str]:
    """Yield loops over the lists that have tables. `following` has the number of the next table."""
    for field in fields.values():
        if field.table:
            index = following[0]
            following[0] += 1
            ordinals = f"len(r{index}) + 1, {f'len(r{above}), ' if above else ''}"
            yield f"{indent}for v{index} in v{above}.{field.name}:"
            yield f"{indent}    r{index}.append(({ordinals}{_row(field.fields, f'v{index}', names)}))"
            yield from _loops(field.fields, index, following, indent + "    ", names)


def _tables(fields: Mapping[str, Field], before: str = "") -> Iterator[str]:
    """Yield the paths of the lists that have tables."""
    for field in fields.values():
        if field.table:
            yield before + field.name
            yield from _tables(field.fields, f"{before}{field.name}.")


def _row(fields: Mapping[str, Field], value: str, names: dict[str, Any]) -> str:
    """Return the expressions of a row's columns: a tuple of scalars, then each JSON column."""
    scalars, documents = [], []
    for field in fields.values():
        source = f"{value}.{field.name}"
        if field.name == "import_supplier" or field.table:  # the supplier is a member of the manifest
            continue
        if field.kind == "list":
            documents.append(_list(field, source, names))
        elif field.kind == "object" and field.is_column:
            plain_fields = {name: inner for name, inner in field.fields.items() if inner.kind != "json"}
            documents.append(f"(None if {source} is UNSET else {_copy(field.name, plain_fields, source, names)})")
            documents += [
                f"(None if {source} is UNSET or {source}.{name} is UNSET else {source}.{name})"
                for name in field.fields
                if name not in plain_fields
            ]
        elif field.kind == "object":
            scalars += [
                f"(None if {source} is UNSET else {_TEXTS[inner.kind].format(f'{source}.{inner.name}')})"
                for inner in field.fields.values()
            ]
        else:
            scalars.append(_TEXTS[field.kind].format(source))
    return ", ".join([f"({', '.join(scalars)},)", *documents]) + ","


def _list(field: Field, source: str, names: dict[str, Any]) -> str:
    """Return the expression of a list that is a JSON column, with datetimes in UTC."""
    if not any(inner.kind == "moment" or inner.kind == "list" for inner in field.fields.values()):
        return source
    item = f"w{len(names)}"
    return f"[{_copy(field.name, field.fields, item, names)} for {item} in {source}]"


def _copy(name: str, fields: Mapping[str, Field], value: str, names: dict[str, Any]) -> str:
    """Return the expression of an object's copy with datetimes in UTC."""
    kind = f"kind{len(names)}"
    names[kind] = msgspec.defstruct(name, [(inner, Any) for inner in fields], module=__name__, gc=False)
    copied = []
    for field in fields.values():
        source = f"{value}.{field.name}"
        if field.kind == "list":
            copied.append(_list(field, source, names))
        else:
            copied.append(f"utc[{source}]" if field.kind == "moment" else source)
    return f"{kind}({', '.join(copied)})"


TABLES: tuple[str, ...] = ("", *_tables(ACCOUNT))
"""Paths of the lists whose objects are rows of a table, in the order of the rows. The first path is the account."""


def _compiled() -> Callable[[Any], list[list[Any]]]:
    """Compile the function that returns an account's rows.

    The source consists only of names of fields in contract.json.
    """
    names: dict[str, Any] = {
        "UNSET": UNSET,
        "number": _number,
        "integer": lambda value: None if value is UNSET else str(value),
        "boolean": {True: "true", False: "false", UNSET: None, None: None},
        "moment": _Cached(_column_text),
        "utc": _utc,
        "separator": TEXT_SEPARATOR,
    }
    exec("\n".join(_source(names)), names)  # noqa: S102 - see above
    compiled: Callable[[Any], list[list[Any]]] = names["rows"]
    return compiled


rows_of = _compiled()
"""Return the rows of an account, a `SHAPE`, by table in the order of `TABLES`."""
SHAPE = _shape("Account", ACCOUNT)
"""Type of an account without undocumented fields."""


def digest_of(rows: Sequence[Any]) -> int:
    """Return the digest of an account's rows as an integer of 64 bits."""
    return int.from_bytes(sha256(_encode(rows)).digest()[:8], "big")
