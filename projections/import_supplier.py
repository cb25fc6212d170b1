"""The import suppliers, their status and settings. Table `import_supplier`; written in the append's transaction."""

from datetime import datetime
from typing import Any

import msgspec

from eventstore.aggregates.supplier import (
    SUPPLIER,
    Supplier,
    SupplierConfigured,
    SupplierCreated,
    SupplierStatusChanged,
)
from eventstore.events import Recorded
from projections.versioning.view import View


class SupplierRow(msgspec.Struct, frozen=True, kw_only=True):
    """What an event makes of a supplier's row: None leaves a column as it is. `created_at` counts for a new row."""

    code: str
    status: str | None = None
    reason: str | None = None
    strictness: str | None = None
    unknown_fields: str | None = None
    is_dry_run_only: bool | None = None
    documents_root: str | None = None
    documents_check: str | None = None
    sends_customer_emails: bool | None = None
    email_language: str | None = None
    created_at: datetime
    modified_at: datetime
    position: int


def supplier_row(recorded: Recorded, position: int) -> SupplierRow | None:
    """The row that the event makes, or None for events of other aggregates."""
    match recorded.event:
        case SupplierCreated():
            new = Supplier()
            said: dict[str, Any] = {"status": "ongoing", "reason": ""} | _settings(new)
        case SupplierStatusChanged() as event:
            said = {"status": event.status, "reason": event.reason}
        case SupplierConfigured() as event:
            said = _settings(event)
        case _:
            return None
    return SupplierRow(
        code=recorded.stream.split("/", 1)[1],
        created_at=recorded.recorded_at,
        modified_at=recorded.recorded_at,
        position=position,
        **said,
    )


def _settings(configured: Supplier | SupplierConfigured) -> dict[str, Any]:
    return {name: getattr(configured, name) for name in SupplierConfigured.__struct_fields__}


def _key_of(stream: str) -> dict[str, str] | None:
    return {"code": stream.split("/", 1)[1]} if stream.startswith("supplier/") else None


IMPORT_SUPPLIER = View(
    "import_supplier",
    SupplierRow,
    supplier_row,
    events=SUPPLIER.topics.values(),
    key=("code",),
    key_of=_key_of,
    first=("created_at",),
    leaves_none=True,
    folds_all=True,
)

SELECT_SUPPLIERS = """
SELECT code, status, reason, strictness, unknown_fields, is_dry_run_only, created_at, modified_at, position,
       documents_root, documents_check, sends_customer_emails, email_language
FROM import_supplier
WHERE position > %s
ORDER BY code
"""

SELECT_TREATMENT = """
SELECT code, status, strictness, unknown_fields, documents_root, documents_check, sends_customer_emails, email_language
FROM import_supplier
WHERE code = ANY(%s)
"""
