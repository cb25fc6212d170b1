"""Import suppliers with status and settings. Table `import_supplier`; written in the append's transaction."""

from collections.abc import Collection
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec
from psycopg import AsyncConnection
from psycopg.sql import SQL, Identifier

from eventstore.aggregates.supplier import (
    SUPPLIER,
    ArchiveAttached,
    SupplierArchived,
    SupplierConfigured,
    SupplierCreated,
    SupplierSettings,
    SupplierStatusChanged,
)
from eventstore.events import Recorded
from eventstore.log.rows import fetch_struct, fetch_structs
from eventstore.operations.rights import Rights
from market.submission_check import Terms
from projections.versions.view import Values, View


class KnownSupplier(SupplierSettings, frozen=True, kw_only=True, dict=True):
    """A supplier with its status and settings. The defaults are those of the contract."""

    code: str
    status: str = "ongoing"
    documents_organisation: str = ""
    position: int = 0

    @property
    def is_paused(self) -> bool:
        """Return whether the supplier's pending imports must wait.

        Accepted imports of a complete supplier are processed.
        """
        return self.status == "paused"

    @cached_property
    def terms(self) -> Terms:
        """Return the settings that the rules of the market use."""
        return msgspec.convert(self, Terms, from_attributes=True)


msgspec.json.Decoder(Terms)  # compile the shape before several threads use it (`schemas.reading.shape.Shape`)


_NOT_ARCHIVED = {"archive_url": "", "archived_upto": 0}
_SETTINGS = msgspec.structs.asdict(SupplierSettings()) | {"documents_organisation": ""}
"""Settings of a new supplier."""
_TYPES = {str: "text", bool: "boolean", int: "bigint"}
_ADDED = "".join(
    f" {name} {_TYPES[type(value)]} NOT NULL DEFAULT {SQL('{}').format(value).as_string()},"
    for name, value in {**_SETTINGS, **_NOT_ARCHIVED}.items()
)


def _configured(event: SupplierConfigured, _: Recorded) -> Values:
    return {name: getattr(event, name) for name in _SETTINGS}


IMPORT_SUPPLIER = View(
    "import_supplier",
    f"code text NOT NULL, status text NOT NULL, reason text NOT NULL,{_ADDED} created_at timestamptz NOT NULL,"
    " modified_at timestamptz NOT NULL, position bigint NOT NULL",
    {
        SupplierCreated: {"status": "ongoing", "reason": ""} | _SETTINGS | _NOT_ARCHIVED,
        SupplierStatusChanged: lambda event, _: {"status": event.status, "reason": event.reason},
        SupplierConfigured: _configured,
        SupplierArchived: lambda event, _: {"archive_url": event.url, "archived_upto": event.position},
        ArchiveAttached: _NOT_ARCHIVED,
    },
    prefix=SUPPLIER.prefix,
    named=("code",),
    first=("created_at",),
    keeps_old=True,
    folds_all=True,
    rights=Rights(api="SIU"),
)
"""View of suppliers. Each field of the settings is a column; existing rows get the field's default."""

_COLUMNS = SQL(", ").join(map(Identifier, KnownSupplier.__struct_fields__))

SELECT_CHANGED = SQL("SELECT {} FROM import_supplier WHERE position > %s ORDER BY code").format(_COLUMNS)
"""Query of suppliers that have changed after a position, as `KnownSupplier`."""

SELECT_NAMED = SQL("SELECT {} FROM import_supplier WHERE code = ANY(%s)").format(_COLUMNS)
"""Query of suppliers by code, as `KnownSupplier`."""


class SupplierListed(KnownSupplier, frozen=True, kw_only=True):
    """A supplier in lists for operators."""

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
    """Read suppliers [None: all] after a code."""
    parameters = {"suppliers": None if suppliers is None else list(suppliers), "after": after, "limit": limit}
    return await fetch_structs(connection, SupplierListed, _SELECT_PAGE, **parameters)


async def supplier_listed(connection: AsyncConnection[Any], code: str) -> SupplierListed | None:
    """Read one supplier; None if it does not exist."""
    return await fetch_struct(connection, SupplierListed, _SELECT_ONE, code)


SELECT_SUPPLIERS = "SELECT * FROM import_supplier ORDER BY code"
"""Suppliers with all columns."""
