"""The import suppliers, their status and settings. Table `import_supplier`; written in the append's transaction."""

from collections.abc import Collection
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec
from psycopg import AsyncConnection
from psycopg.rows import class_row
from psycopg.sql import SQL, Identifier

from eventstore.aggregates.supplier import (
    SUPPLIER,
    ArchiveAttached,
    Supplier,
    SupplierArchived,
    SupplierConfigured,
    SupplierCreated,
    SupplierSettings,
    SupplierStatusChanged,
)
from eventstore.events import Recorded
from eventstore.operations.rights import Rights
from market.judging import Terms
from projections.versions.view import View

_SETTINGS = (*SupplierSettings.__struct_fields__, "documents_organisation")
_NOT_ARCHIVED = {"archive_url": "", "archived_upto": 0}


_FIELDS = [(field.name, type(field.default) | None, None) for field in msgspec.structs.fields(SupplierSettings)]

SupplierRow = msgspec.defstruct(
    "SupplierRow",
    [
        ("code", str),
        ("status", str | None, None),
        ("reason", str | None, None),
        *_FIELDS,
        ("documents_organisation", str | None, None),
        ("archive_url", str | None, None),
        ("archived_upto", int | None, None),
        ("created_at", datetime),
        ("modified_at", datetime),
        ("position", int),
    ],
    frozen=True,
    kw_only=True,
)
"""What an event makes of a supplier's row: None leaves a column as it is. `created_at` counts for a new row."""


class KnownSupplier(SupplierSettings, frozen=True, kw_only=True, dict=True):
    """A supplier as the table has it: its status and its settings; one that is not known is treated by the contract."""

    code: str
    status: str = "ongoing"
    documents_organisation: str = ""
    position: int = 0

    @property
    def is_paused(self) -> bool:
        """What is pending waits until the supplier is ongoing again; a complete one lets what was accepted end."""
        return self.status == "paused"

    @cached_property
    def terms(self) -> Terms:
        """What its accounts are judged by: those of the settings that are terms, by their names."""
        return msgspec.convert(self, Terms, from_attributes=True)


msgspec.json.Decoder(Terms)  # compiles it, before several threads ask for terms at once (`schemas.reading.shape.Shape`)


def supplier_row(recorded: Recorded, position: int) -> msgspec.Struct | None:
    """The row that the event makes, or None for events of other aggregates."""
    match recorded.event:
        case SupplierCreated():
            new = Supplier()
            said: dict[str, Any] = {"status": "ongoing", "reason": ""} | _settings(new) | _NOT_ARCHIVED
        case SupplierStatusChanged() as event:
            said = {"status": event.status, "reason": event.reason}
        case SupplierConfigured() as event:
            said = _settings(event)
        case SupplierArchived() as event:
            said = {"archive_url": event.url, "archived_upto": event.position}
        case ArchiveAttached():
            said = _NOT_ARCHIVED
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
    return {name: getattr(configured, name) for name in _SETTINGS}


def _key_of(stream: str) -> dict[str, str] | None:
    return {"code": stream.split("/", 1)[1]} if stream.startswith("supplier/") else None


IMPORT_SUPPLIER = View(
    "import_supplier",
    SupplierRow,
    supplier_row,
    events=SUPPLIER.topics.values(),
    rights=Rights(api="SIU"),
    key=("code",),
    key_of=_key_of,
    first=("created_at",),
    leaves_none=True,
    folds_all=True,
    defaults=msgspec.structs.asdict(SupplierSettings()) | {"documents_organisation": ""} | _NOT_ARCHIVED,
)

_COLUMNS = SQL(", ").join(map(Identifier, KnownSupplier.__struct_fields__))

SELECT_CHANGED = SQL("SELECT {} FROM import_supplier WHERE position > %s ORDER BY code").format(_COLUMNS)
"""As `KnownSupplier`: what has changed after a position."""

SELECT_NAMED = SQL("SELECT {} FROM import_supplier WHERE code = ANY(%s)").format(_COLUMNS)
"""As `KnownSupplier`: those with these codes."""


class SupplierListed(KnownSupplier, frozen=True, kw_only=True):
    """A supplier as operators see it."""

    reason: str = ""
    modified_at: datetime


_LISTED = SQL(", ").join(map(Identifier, SupplierListed.__struct_fields__))
_SELECT_PAGE = SQL("""
SELECT {} FROM import_supplier
WHERE (%(suppliers)s::text[] IS NULL OR code = ANY(%(suppliers)s)) AND code > %(after)s
ORDER BY code
LIMIT %(limit)s
""").format(_LISTED)
_SELECT_ONE = SQL("SELECT {} FROM import_supplier WHERE code = %s").format(_LISTED)


async def suppliers_page(
    connection: AsyncConnection[Any], suppliers: Collection[str] | None, after: str, limit: int
) -> list[SupplierListed]:
    """Those of these suppliers, or of all, that come after a code."""
    wanted = {"suppliers": None if suppliers is None else list(suppliers), "after": after, "limit": limit}
    async with connection.cursor(row_factory=class_row(SupplierListed)) as cursor:
        return await (await cursor.execute(_SELECT_PAGE, wanted)).fetchall()


async def supplier_listed(connection: AsyncConnection[Any], code: str) -> SupplierListed | None:
    """One supplier; None where there is none."""
    async with connection.cursor(row_factory=class_row(SupplierListed)) as cursor:
        return await (await cursor.execute(_SELECT_ONE, (code,))).fetchone()


SELECT_SUPPLIERS = "SELECT * FROM import_supplier ORDER BY code"
"""Whole rows, for those who show them."""
