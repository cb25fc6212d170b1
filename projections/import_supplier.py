"""The import suppliers and their status. Table `import_supplier`; written in the append's transaction."""

from datetime import datetime
from typing import Any

import msgspec

from eventstore.events import Recorded
from eventstore.supplier import SupplierCreated, SupplierStatusChanged


class SupplierRow(msgspec.Struct, frozen=True, kw_only=True):
    """One supplier. `created_at` counts only for a new row."""

    code: str
    status: str
    reason: str
    created_at: datetime
    modified_at: datetime
    position: int


class ImportSupplierView:
    """See the module; `project` is pure."""

    name = "import_supplier"
    columns = SupplierRow.__struct_fields__
    upsert = """
        INSERT INTO import_supplier (code, status, reason, created_at, modified_at, position)
        SELECT n.code, n.status, n.reason, n.created_at, n.modified_at, appended.base + n.position
        FROM appended, unnest(
            %(import_supplier_code)b::text[], %(import_supplier_status)b::text[], %(import_supplier_reason)b::text[],
            %(import_supplier_created_at)b::timestamptz[], %(import_supplier_modified_at)b::timestamptz[],
            %(import_supplier_position)b::bigint[]
        ) AS n (code, status, reason, created_at, modified_at, position)
        ON CONFLICT (code) DO UPDATE SET
            status = excluded.status, reason = excluded.reason, modified_at = excluded.modified_at,
            position = excluded.position
    """

    def project(self, recorded: Recorded, position: int) -> tuple[Any, ...] | None:
        """The row that the event makes, or None for events of other aggregates."""
        match recorded.event:
            case SupplierCreated():
                status, reason = "ongoing", ""
            case SupplierStatusChanged() as event:
                status, reason = event.status, event.reason
            case _:
                return None
        row = SupplierRow(
            code=recorded.stream.split("/", 1)[1],
            status=status,
            reason=reason,
            created_at=recorded.recorded_at,
            modified_at=recorded.recorded_at,
            position=position,
        )
        return msgspec.structs.astuple(row)


IMPORT_SUPPLIER = ImportSupplierView()

SELECT_SUPPLIERS = """
SELECT code, status, reason, created_at, modified_at, position
FROM import_supplier
WHERE position > %s
ORDER BY code
"""
