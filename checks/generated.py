"""Documents that are made from the code and kept in docs/: errors, the table of limits and the released contract.

`python -m checks.generated` writes them; tests compare them with the code. The contract may only grow, since clients
rely on it: any other change is refused here.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from api.description.catalogue import CATALOGUE
from api.description.openapi import names_within, openapi
from api.http.limits import LIMITS
from api.http.responses import encoded
from api.operations import OPERATIONS
from schemas.account import WrappedAccount
from schemas.base import DECIMAL_PATTERN
from schemas.delivery_note import DeliveryNoteImport
from schemas.energy_amount import EnergyAmountImport
from schemas.field_descriptions import field_descriptions, structs_of
from schemas.invoice import MarketParticipantInvoiceImport
from schemas.market_participant import MarketParticipant
from schemas.price_sheet import FeeImport
from telemetry.log import begin_process

DOCS = Path(__file__).parent.parent / "docs"
CONTRACT = DOCS / "openapi.json"
ERRORS = DOCS / "reference" / "errors.md"
FIELDS = DOCS / "reference" / "fields.md"
LIMITS_PAGE = DOCS / "reference" / "limits.md"

_LIMITS_BEGIN, _LIMITS_END = "<!-- limits -->\n", "<!-- /limits -->\n"

_FOR_PEOPLE = frozenset({"description", "summary", "example", "examples", "title", "tags", "version"})
"""Members of the description that are for people. They may change."""
_BOUNDS = frozenset({"pattern", "enum", "minimum", "maximum", "minLength", "maxLength", "maxItems", "type"})
_NAME_MAPS = ("/properties", "/schemas", "/paths", "/responses")
"""Ends of the paths of objects whose member names are ours, such as those of fields, and not keywords."""


def limits_table() -> str:
    """Return the table of limits as docs/reference/limits.md shows it."""
    rows = [f"| {limit.name} | {limit.value} | {limit.answer} | {limit.protects} |" for limit in LIMITS]
    return "\n".join(["| what | limit | beyond it | protects |", "|---|---|---|---|", *rows]) + "\n"


def limits_page(page: str) -> str:
    """Return the text of docs/reference/limits.md with its table replaced by the current one."""
    before, _, remaining = page.partition(_LIMITS_BEGIN)
    _, _, after = remaining.partition(_LIMITS_END)
    return f"{before}{_LIMITS_BEGIN}{limits_table()}{_LIMITS_END}{after}"


def errors_page() -> str:
    """Return the text of docs/reference/errors.md."""
    lines = [
        "# Error codes",
        "",
        "Made by `make docs` from `api/description/errors.toml` and `market/`. Codes are permanent;",
        "sentences may change. `GET /errors/` has the same as JSON.",
        "",
        "| code | status | occurs in | meaning |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| [`{entry.code}`](#{entry.code.lower()}) | {entry.status or ''} | {', '.join(entry.where)} |"
        f" {entry.meaning} |"
        for entry in CATALOGUE
    ]
    for entry in CATALOGUE:
        example = msgspec.json.format(encoded(entry.example), indent=2).decode()
        lines += [
            "",
            f"## {entry.code}",
            "",
            "| | English | Deutsch |",
            "|---|---|---|",
            f"| Meaning | {entry.meaning} | {entry.meaning_de} |",
            f"| Cause | {entry.when} | {entry.when_de} |",
            f"| Remedy | {entry.action} | {entry.action_de} |",
            "",
            "```json",
            example,
            "```",
        ]
        if entry.rules:
            lines += ["", "| place | rule | auf Deutsch | source |", "|---|---|---|---|"]
        lines += [
            f"| {rule.resource}: `{rule.at or 'the whole'}` | "
            f"{'warning: ' if rule.severity == 'warning' else ''}{rule.says} | {rule.says_de} | {rule.source} |"
            for rule in entry.rules
        ]
    return "\n".join(lines) + "\n"


_RESOURCES = (
    WrappedAccount,
    MarketParticipant,
    FeeImport,
    DeliveryNoteImport,
    EnergyAmountImport,
    MarketParticipantInvoiceImport,
)


def fields_page() -> str:
    """Return the text of docs/reference/fields.md: every field that importers send."""
    lines = [
        "# Fields",
        "",
        "Made by `make docs` from `schemas/`. A field in **bold** is required. A datetime without zone is",
        "German market time, and a decimal may be sent as text or as a number.",
    ]
    structs = {name: struct for resource in _RESOURCES for name, struct in structs_of([resource]).items()}
    for name, struct in structs.items():
        descriptions, node = field_descriptions(struct), inspect.type_info(struct)
        assert isinstance(node, inspect.StructType)
        lines += ["", f"## {name}", "", "| field | type | limits | meaning | German term |", "|---|---|---|---|---|"]
        for field in node.fields:
            kind, limits = _kind_and_limits(field.type)
            description = descriptions[field.name]
            term = re.search(r"\(([^()]+)\)", description)
            meaning = description if term is None else description.replace(f" {term[0]}", "", 1)
            title = f"**{field.encode_name}**" if field.required else field.encode_name
            lines.append(f"| {title} | {kind} | {limits} | {meaning} | {term[1] if term else ''} |")
    return "\n".join(lines) + "\n"


def _kind_and_limits(node: inspect.Type) -> tuple[str, str]:  # noqa: C901 - one match over types
    """Return the type of a field in words, and its limits."""
    match node:
        case inspect.UnionType(types=types):
            kind, limits = _kind_and_limits(next(t for t in types if not isinstance(t, inspect.NoneType)))
            is_null = any(isinstance(member, inspect.NoneType) for member in types)
            return kind + (" or null" if is_null else ""), limits
        case inspect.StructType(cls=cls):
            return f"[{cls.__name__}](#{cls.__name__.lower()})", ""
        case inspect.VarTupleType(item_type=item, max_length=most):
            return f"array of {_kind_and_limits(item)[0]}", f"at most {most:,} items" if most else ""
        case inspect.LiteralType(values=values):
            return "text", "one of " + ", ".join(map(str, values))
        case inspect.StrType(pattern=pattern) if pattern == DECIMAL_PATTERN:
            return "decimal", "18 digits before the point, 10 after it"
        case inspect.StrType(min_length=least, max_length=most):
            bounds = [f"at most {most:,} characters" if most else "", "not blank" if least else ""]
            return "text", ", ".join(filter(None, bounds))
        case inspect.DecimalType():
            return "decimal", "18 digits before the point, 10 after it"
        case inspect.IntType(ge=least, le=most):
            return "integer", f"{least} to {most}" if least is not None else ""
        case inspect.BoolType():
            return "boolean", ""
        case inspect.DateType():
            return "date", "YYYY-MM-DD"
        case inspect.DateTimeType():
            return "datetime", "ISO 8601"
        case inspect.DictType():
            return "object", ""
        case _:
            return "any JSON", ""


def contract_changes(released: Any, present: Any) -> Iterator[str]:
    """Yield the places where the present contract breaks the released one. Additions are allowed.

    Nothing may be missing or different.

    - Requests must not be bound further: no field becomes required, bounds and patterns stay, and none are new.
      A longer text and a new value of an enumeration are additions.
    - Answers must not be bound less: fields may become required, bounds may be new, and enumerations stay.
    """
    yield from _changes(released, present, "", _Directions(frozenset(_components_sent(released))))


class _Directions(msgspec.Struct, frozen=True):
    """Distinguishes the parts of a description that clients send from those that they only read."""

    sent: frozenset[str]
    """Names of the components that bodies of requests are made of."""

    def is_answer(self, path: str) -> bool:
        """Return True if this place describes answers only."""
        _, _, component = path.partition("/components/schemas/")
        return "/responses/" in path or bool(component and component.partition("/")[0] not in self.sent)


def _components_sent(document: dict[str, Any]) -> set[str]:
    operations = [operation for path in document.get("paths", {}).values() for operation in path.values()]
    bodies = [operation["requestBody"] for operation in operations if "requestBody" in operation]
    return names_within(bodies, document["components"]["schemas"])


def _changes(released: Any, present: Any, path: str, directions: _Directions) -> Iterator[str]:
    if _is_longer(released, present, path, directions):
        return
    match released, present:
        case dict(), dict():
            yield from _changes_of_object(released, present, path, directions)
        case list(), list() if path.endswith("/required") and directions.is_answer(path):
            if not set(released) <= set(present):
                yield f"{path} was {released} and is {present}"
        case list(), list() if path.endswith("/required") or (path.endswith("/enum") and directions.is_answer(path)):
            if set(released) != set(present):
                yield f"{path} was {released} and is {present}"
        case list(), list() if len(released) == len(present) and not path.endswith("/enum"):
            for index, (was, now) in enumerate(zip(released, present, strict=True)):
                yield from _changes(was, now, f"{path}/{index}", directions)
        case list(), list():
            if removed := [item for item in released if item not in present]:
                yield f"{path} has lost {removed}"
        case _ if released != present:
            yield f"{path} was {released!r} and is {present!r}"


def _changes_of_object(
    released: dict[str, Any], present: dict[str, Any], path: str, directions: _Directions
) -> Iterator[str]:
    are_properties = path.endswith(_NAME_MAPS)
    for name in (name for name in released if are_properties or name not in _FOR_PEOPLE):
        if name in present:
            yield from _changes(released[name], present[name], f"{path}/{name}", directions)
        else:
            yield f"{path}/{name} is gone"
    if not are_properties and not directions.is_answer(path):
        new = (present.keys() - released.keys()) & _BOUNDS
        if "enum" in released:
            new -= {"type"}  # the values imply it
        yield from (f"{path}/{name} is new" for name in new)


def _is_longer(was: Any, now: Any, path: str, directions: _Directions) -> bool:
    return path.endswith("/maxLength") and not directions.is_answer(path) and bool(was < now)


def main() -> None:
    """Write all pages. Exit code 1 if the contract would break the released one, which docs/openapi.json holds."""
    present = openapi(OPERATIONS)
    released = msgspec.json.decode(CONTRACT.read_bytes()) if CONTRACT.exists() else present
    if changes := list(contract_changes(released, present)):
        sys.exit("The contract may only grow:\n" + "\n".join(changes))
    CONTRACT.write_bytes(msgspec.json.format(msgspec.json.encode(present), indent=1) + b"\n")
    ERRORS.write_text(errors_page())
    FIELDS.write_text(fields_page())
    LIMITS_PAGE.write_text(limits_page(LIMITS_PAGE.read_text()))


if __name__ == "__main__":
    begin_process("warning")
    main()
