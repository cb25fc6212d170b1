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


class ImportSupplierView:
    """See the module; `project` is pure."""

    name = "import_supplier"
    columns = SupplierRow.__struct_fields__
    key_columns = 1
    events = frozenset(SUPPLIER.topics.values())
    upsert = """
        INSERT INTO import_supplier AS row (
            code, status, reason, strictness, unknown_fields, is_dry_run_only, documents_root, documents_check,
            sends_customer_emails, email_language, created_at, modified_at, position)
        SELECT n.code, coalesce(n.status, old.status), coalesce(n.reason, old.reason),
               coalesce(n.strictness, old.strictness), coalesce(n.unknown_fields, old.unknown_fields),
               coalesce(n.is_dry_run_only, old.is_dry_run_only), coalesce(n.documents_root, old.documents_root),
               coalesce(n.documents_check, old.documents_check),
               coalesce(n.sends_customer_emails, old.sends_customer_emails),
               coalesce(n.email_language, old.email_language), n.created_at, n.modified_at,
               appended.base + n.position
        FROM appended, unnest(
            %(import_supplier_code)b::text[], %(import_supplier_status)b::text[], %(import_supplier_reason)b::text[],
            %(import_supplier_strictness)b::text[], %(import_supplier_unknown_fields)b::text[],
            %(import_supplier_is_dry_run_only)b::boolean[], %(import_supplier_documents_root)b::text[],
            %(import_supplier_documents_check)b::text[], %(import_supplier_sends_customer_emails)b::boolean[],
            %(import_supplier_email_language)b::text[], %(import_supplier_created_at)b::timestamptz[],
            %(import_supplier_modified_at)b::timestamptz[], %(import_supplier_position)b::bigint[]
        ) AS n (code, status, reason, strictness, unknown_fields, is_dry_run_only, documents_root, documents_check,
                sends_customer_emails, email_language, created_at, modified_at, position)
        LEFT JOIN import_supplier AS old ON old.code = n.code
        ON CONFLICT (code) DO UPDATE SET
            status = excluded.status, reason = excluded.reason, strictness = excluded.strictness,
            unknown_fields = excluded.unknown_fields, is_dry_run_only = excluded.is_dry_run_only,
            documents_root = excluded.documents_root, documents_check = excluded.documents_check,
            sends_customer_emails = excluded.sends_customer_emails, email_language = excluded.email_language,
            modified_at = excluded.modified_at, position = excluded.position
    """

    folds_all = True
    skipped = "false"

    def key_of(self, stream: str) -> dict[str, str] | None:
        return {"code": stream.split("/", 1)[1]} if stream.startswith("supplier/") else None

    def project(self, recorded: Recorded, position: int) -> tuple[Any, ...] | None:
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
        row = SupplierRow(
            code=recorded.stream.split("/", 1)[1],
            created_at=recorded.recorded_at,
            modified_at=recorded.recorded_at,
            position=position,
            **said,
        )
        return msgspec.structs.astuple(row)


def _settings(configured: Supplier | SupplierConfigured) -> dict[str, Any]:
    return {name: getattr(configured, name) for name in SupplierConfigured.__struct_fields__}


IMPORT_SUPPLIER = ImportSupplierView()

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
