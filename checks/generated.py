"""Documents that are made from the code and kept in docs/: errors, the table of limits and the released contract.

`python -m checks.generated` writes them; tests hold them to the code. The contract may only grow: what clients rely on
does not change, so a change that is no addition is refused here.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from api.description.catalogue import CATALOGUE
from api.description.openapi import names_within, openapi
from api.http.limits import LIMITS
from api.operations import OPERATIONS
from telemetry.log import begin_process

DOCS = Path(__file__).parent.parent / "docs"
CONTRACT = DOCS / "openapi.json"
ERRORS = DOCS / "reference" / "errors.md"
LIMITS_PAGE = DOCS / "reference" / "limits.md"

_LIMITS_BEGIN, _LIMITS_END = "<!-- limits -->\n", "<!-- /limits -->\n"

_FOR_PEOPLE = frozenset({"description", "summary", "example", "examples", "title", "tags", "version"})
"""May change."""
_BOUNDS = frozenset({"pattern", "enum", "minimum", "maximum", "minLength", "maxLength", "maxItems", "type"})
_NAMED_THINGS = ("/properties", "/schemas", "/paths", "/responses")
"""Objects whose names are not JSON Schema's own."""


def limits_table() -> str:
    """The table as docs/reference/limits.md shows it."""
    rows = [f"| {limit.name} | {limit.value} | {limit.answer} | {limit.protects} |" for limit in LIMITS]
    return "\n".join(["| what | limit | beyond it | protects |", "|---|---|---|---|", *rows]) + "\n"


def limits_page(page: str) -> str:
    """docs/reference/limits.md with the table of limits as it is now."""
    before, _, rest = page.partition(_LIMITS_BEGIN)
    _, _, after = rest.partition(_LIMITS_END)
    return f"{before}{_LIMITS_BEGIN}{limits_table()}{_LIMITS_END}{after}"


def errors_page() -> str:
    """docs/reference/errors.md."""
    lines = [
        "# Error codes",
        "",
        "Made by `make docs` from `api/description/errors.toml` and `market/`. Codes are permanent;",
        "sentences may change.",
        "`GET /errors/` has the same with examples.",
        "",
        "| code | status | met in | means | auf Deutsch |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| `{entry.code}` | {entry.status or ''} | {', '.join(entry.where)} | {entry.meaning} | {entry.meaning_de} |"
        for entry in CATALOGUE
    ]
    lines += ["", "## Rules", "", "| code | place | rule | auf Deutsch | source |", "|---|---|---|---|---|"]
    lines += [
        f"| `{entry.code}` | {rule.resource}: `{rule.at or 'the whole'}` | "
        f"{'warning: ' if rule.severity == 'warning' else ''}{rule.says} | {rule.says_de} | {rule.source} |"
        for entry in CATALOGUE
        for rule in entry.rules
    ]
    return "\n".join(lines) + "\n"


def contract_changes(released: Any, present: Any) -> Iterator[str]:
    """Yield the places where the present contract breaks the released one. Additions are allowed.

    Nothing may be missing or different.

    - Requests must not be bound further: no field becomes required, bounds and patterns stay, and none are new.
      A longer text and a new value of an enumeration are additions.
    - Answers must not be bound less: fields may become required, bounds may be new, and enumerations stay.
    """
    yield from _changes(released, present, "", _Sides(frozenset(_components_sent(released))))


class _Sides(msgspec.Struct, frozen=True):
    """Distinguish the parts of a description that clients send from those that they only read."""

    sent: frozenset[str]
    """Names of the components that bodies of requests are made of."""

    def is_answer(self, place: str) -> bool:
        """Return True if this place describes answers only."""
        _, _, component = place.partition("/components/schemas/")
        return "/responses/" in place or bool(component and component.partition("/")[0] not in self.sent)


def _components_sent(document: dict[str, Any]) -> set[str]:
    operations = [operation for path in document.get("paths", {}).values() for operation in path.values()]
    bodies = [operation["requestBody"] for operation in operations if "requestBody" in operation]
    return names_within(bodies, document["components"]["schemas"])


def _changes(released: Any, present: Any, place: str, sides: _Sides) -> Iterator[str]:
    if _is_longer(released, present, place, sides):
        return
    match released, present:
        case dict(), dict():
            yield from _changes_of_object(released, present, place, sides)
        case list(), list() if place.endswith("/required") and sides.is_answer(place):
            if not set(released) <= set(present):
                yield f"{place} was {released} and is {present}"
        case list(), list() if place.endswith("/required") or (place.endswith("/enum") and sides.is_answer(place)):
            if set(released) != set(present):
                yield f"{place} was {released} and is {present}"
        case list(), list() if len(released) == len(present) and not place.endswith("/enum"):
            for index, (was, now) in enumerate(zip(released, present, strict=True)):
                yield from _changes(was, now, f"{place}/{index}", sides)
        case list(), list():
            if lost := [item for item in released if item not in present]:
                yield f"{place} has lost {lost}"
        case _ if released != present:
            yield f"{place} was {released!r} and is {present!r}"


def _changes_of_object(released: dict[str, Any], present: dict[str, Any], place: str, sides: _Sides) -> Iterator[str]:
    are_properties = place.endswith(_NAMED_THINGS)
    for name in (name for name in released if are_properties or name not in _FOR_PEOPLE):
        if name in present:
            yield from _changes(released[name], present[name], f"{place}/{name}", sides)
        else:
            yield f"{place}/{name} is gone"
    if not are_properties and not sides.is_answer(place):
        new = (present.keys() - released.keys()) & _BOUNDS
        if "enum" in released:
            new -= {"type"}  # it repeats what the values are
        yield from (f"{place}/{name} is new" for name in new)


def _is_longer(was: Any, now: Any, place: str, sides: _Sides) -> bool:
    return place.endswith("/maxLength") and not sides.is_answer(place) and bool(was < now)


def main() -> None:
    """Write all. Exit code 1 when the contract would change what was released."""
    present = openapi(OPERATIONS)
    released = msgspec.json.decode(CONTRACT.read_bytes()) if CONTRACT.exists() else {}
    if changes := list(contract_changes(released, present)):
        sys.exit("The contract may only grow:\n" + "\n".join(changes))
    CONTRACT.write_bytes(msgspec.json.format(msgspec.json.encode(present), indent=1) + b"\n")
    ERRORS.write_text(errors_page())
    LIMITS_PAGE.write_text(limits_page(LIMITS_PAGE.read_text()))


if __name__ == "__main__":
    begin_process("warning")
    main()
