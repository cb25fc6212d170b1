"""Rows that differ between two versions of a projection, as JSON for the result of an owner's task. Pure.

Results stay after a person was erased, so values from payloads are masked as on screens.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from projections.versions.compare import Comparison, Difference
from projections.versions.projection import Projection
from redaction.masking import masked_tree

ROWS = 50
"""Rows in a result. Further rows are only counted."""
MAX_VALUE = 200
_NAMING = ("account_number", "external_account_number", "import_supplier", "stream", "supplier")


def differing_rows(comparison: Comparison, projection: Projection) -> dict[str, Any]:
    """Return the numbers of rows that were changed, added and removed, and the first ROWS of them."""
    return {
        "changed": comparison.changed,
        "added": comparison.added,
        "removed": comparison.removed,
        "rows": [_row(difference, is_masked=projection.reads_payloads) for difference in comparison.first[:ROWS]],
    }


def _row(difference: Difference, *, is_masked: bool) -> dict[str, Any]:
    """Return the key of a row, the event that caused it, and the columns that differ.

    Of a row that only one side has, all columns differ.
    """
    key = _shown(difference.key, is_masked=is_masked)
    before, after = (_shown(side or {}, is_masked=is_masked) for side in (difference.before, difference.after))
    names = difference.columns or [name for name in (*before, *after) if name not in key]
    is_whole = difference.before is None or difference.after is None
    return {
        "table": difference.table,
        "kind": "added" if difference.before is None else "removed" if difference.after is None else "changed",
        "key": key,
        "columns": [
            [name, before.get(name), after.get(name)] for name in names if not is_whole or _any(name, before, after)
        ],
        "cause": difference.cause,
    }


def _any(name: str, *sides: Mapping[str, str | None]) -> bool:
    return any(side.get(name) is not None for side in sides)


def _shown(row: Mapping[str, Any], *, is_masked: bool) -> dict[str, str | None]:
    open_names = {name for name in row if name in _NAMING or name.endswith("ordinal")}
    values = masked_tree(dict(row), open_names) if is_masked else row
    return {name: _text(value) for name, value in values.items()}


def _text(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…"
