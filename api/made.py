"""Documents that are made from the code and kept in docs/: the page of errors and the released contract.

`python -m api.made` writes them; tests hold them to the code. The contract may only grow: what clients rely on does
not change, so a change that is no addition is refused here.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from api.catalogue import CATALOGUE
from api.description import openapi
from api.operations import OPERATIONS

DOCS = Path(__file__).parent.parent / "docs"
CONTRACT = DOCS / "openapi.json"
ERRORS = DOCS / "errors.md"

_FOR_PEOPLE = frozenset({"description", "summary", "example", "title", "tags", "version"})
"""May change."""
_BOUNDS = frozenset({"pattern", "enum", "minimum", "maximum", "minLength", "maxLength", "maxItems", "type"})
_NAMED_THINGS = ("/properties", "/schemas", "/paths", "/responses")
"""Objects whose names are not JSON Schema's own."""


def errors_page() -> str:
    """docs/errors.md."""
    lines = [
        "# Error codes",
        "",
        "Made from `api/catalogue.py` by `make docs`. Codes are permanent; sentences may change.",
        "`GET /errors/` has the same with examples.",
        "",
        "| code | status | met in | means |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| `{entry.code}` | {entry.status or ''} | {', '.join(entry.where)} | {entry.meaning} |" for entry in CATALOGUE
    ]
    lines += ["", "## Rules", "", "| code | place | rule | source |", "|---|---|---|---|"]
    lines += [
        f"| `{entry.code}` | {rule.resource}: `{rule.at or 'the whole'}` | "
        f"{'warning: ' if rule.severity == 'warning' else ''}{rule.says} | {rule.source} |"
        for entry in CATALOGUE
        for rule in entry.rules
    ]
    return "\n".join(lines) + "\n"


def contract_changes(released: Any, present: Any, place: str = "") -> Iterator[str]:
    """Where the present contract does not hold what was released. Additions are no changes.

    Nothing that was there may be missing or different; no field of a request may become required; what a request may
    hold may not become less, so bounds and patterns stay as they are and no new ones are set.
    """
    match released, present:
        case dict(), dict():
            for name in (name for name in released if name not in _FOR_PEOPLE):
                if name in present:
                    yield from contract_changes(released[name], present[name], f"{place}/{name}")
                else:
                    yield f"{place}/{name} is gone"
            if not place.endswith(_NAMED_THINGS):
                yield from (f"{place}/{name} is new" for name in (present.keys() - released.keys()) & _BOUNDS)
        case list(), list() if place.endswith("/required"):
            if set(released) != set(present):
                yield f"{place} was {released} and is {present}"
        case list(), list() if len(released) == len(present) and not place.endswith("/enum"):
            for index, (was, now) in enumerate(zip(released, present, strict=True)):
                yield from contract_changes(was, now, f"{place}/{index}")
        case list(), list():
            if lost := [item for item in released if item not in present]:
                yield f"{place} has lost {lost}"
        case _ if released != present:
            yield f"{place} was {released!r} and is {present!r}"


def main() -> None:
    """Write both. Exit code 1 when the contract would change what was released."""
    present = openapi(OPERATIONS)
    released = msgspec.json.decode(CONTRACT.read_bytes()) if CONTRACT.exists() else {}
    if changes := list(contract_changes(released, present)):
        sys.exit("The contract may only grow:\n" + "\n".join(changes))
    CONTRACT.write_bytes(msgspec.json.format(msgspec.json.encode(present), indent=1) + b"\n")
    ERRORS.write_text(errors_page())


if __name__ == "__main__":
    main()
