"""Documents that are made from the code and kept in docs/: errors, the table of limits and the released contract.

`python -m api.generated` writes them; tests hold them to the code. The contract may only grow: what clients rely on
does not change, so a change that is no addition is refused here.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from api.catalogue import CATALOGUE
from api.description import openapi
from api.limits import limits_table
from api.operations import OPERATIONS

DOCS = Path(__file__).parent.parent / "docs"
CONTRACT = DOCS / "openapi.json"
ERRORS = DOCS / "errors.md"
OPERATIONS_PAGE = DOCS / "operations.md"

_LIMITS_BEGIN, _LIMITS_END = "<!-- limits -->\n", "<!-- /limits -->\n"

_FOR_PEOPLE = frozenset({"description", "summary", "example", "examples", "title", "tags", "version"})
"""May change."""
_BOUNDS = frozenset({"pattern", "enum", "minimum", "maximum", "minLength", "maxLength", "maxItems", "type"})
_NAMED_THINGS = ("/properties", "/schemas", "/paths", "/responses")
"""Objects whose names are not JSON Schema's own."""


class Restated(msgspec.Struct, frozen=True):
    """A bound of requests that was widened, or dropped."""

    was: str
    now: str | None
    """None where it is dropped."""
    reason: str


RESTATED: tuple[Restated, ...] = (
    Restated(r"^[!-~]{1,254}$", r"^[\s\S]{1,254}$", "a search takes any text, names with umlauts first of all"),
    Restated("^[A-Za-z0-9_-]{1,32}$", None, "a search takes any text as a supplier, and finds nothing for most"),
)
"""Bounds that were widened or dropped since they were released. Nothing else may be."""


def operations_page(page: str) -> str:
    """docs/operations.md with the table of limits as it is now."""
    before, _, rest = page.partition(_LIMITS_BEGIN)
    _, _, after = rest.partition(_LIMITS_END)
    return f"{before}{_LIMITS_BEGIN}{limits_table()}{_LIMITS_END}{after}"


def errors_page() -> str:
    """docs/errors.md."""
    lines = [
        "# Error codes",
        "",
        "Made from `api/catalogue.py` by `make docs`. Codes are permanent; sentences may change.",
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


def contract_changes(released: Any, present: Any, place: str = "") -> Iterator[str]:
    """Where the present contract does not hold what was released. Additions are no changes.

    Nothing that was there may be missing or different; no field of a request may become required; what a request may
    hold may not become less, so bounds and patterns stay as they are, but for those in `RESTATED`, and no new ones
    are set.
    """
    match released, present:
        case dict(), dict():
            yield from _changes_of_object(released, present, place)
        case list(), list() if place.endswith("/required"):
            if set(released) != set(present):
                yield f"{place} was {released} and is {present}"
        case list(), list() if len(released) == len(present) and not place.endswith("/enum"):
            for index, (was, now) in enumerate(zip(released, present, strict=True)):
                yield from contract_changes(was, now, f"{place}/{index}")
        case list(), list():
            if lost := [item for item in released if item not in present]:
                yield f"{place} has lost {lost}"
        case _ if released != present and not (place.endswith("/pattern") and _is_restated(released, present)):
            yield f"{place} was {released!r} and is {present!r}"


def _changes_of_object(released: dict[str, Any], present: dict[str, Any], place: str) -> Iterator[str]:
    for name in (name for name in released if name not in _FOR_PEOPLE):
        if name in present:
            yield from contract_changes(released[name], present[name], f"{place}/{name}")
        elif not (name in _BOUNDS and _is_restated(released[name], None)):
            yield f"{place}/{name} is gone"
    if not place.endswith(_NAMED_THINGS):
        yield from (f"{place}/{name} is new" for name in (present.keys() - released.keys()) & _BOUNDS)


def _is_restated(was: Any, now: Any) -> bool:
    return any((row.was, row.now) == (was, now) for row in RESTATED)


def main() -> None:
    """Write all. Exit code 1 when the contract would change what was released."""
    present = openapi(OPERATIONS)
    released = msgspec.json.decode(CONTRACT.read_bytes()) if CONTRACT.exists() else {}
    if changes := list(contract_changes(released, present)):
        sys.exit("The contract may only grow:\n" + "\n".join(changes))
    CONTRACT.write_bytes(msgspec.json.format(msgspec.json.encode(present), indent=1) + b"\n")
    ERRORS.write_text(errors_page())
    OPERATIONS_PAGE.write_text(operations_page(OPERATIONS_PAGE.read_text()))


if __name__ == "__main__":
    main()
