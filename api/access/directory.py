"""Keys and suppliers in memory, refreshed twice a second with the latest changes.

If a supplier or key is not in memory, the database is read at once, so that new suppliers and keys can be used at once.
"""

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import msgspec
from psycopg import AsyncConnection, Error
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from api.http.database import read
from api.http.shared_runs import SharedRuns
from eventstore.errors import StoreUnavailable
from eventstore.log.rows import fetch_structs
from projections.views.access_key import SELECT_KEYS
from projections.views.import_supplier import SELECT_CHANGED, KnownSupplier
from telemetry.supervision import supervision

REFRESH_S = 0.5
ALL_SUPPLIERS = "*"
OPERATOR = ""
"""Organisation of data that the operator of the service has sent."""
KEEPER = "directory"
"""Name of the task that refreshes the directory."""


class Key(msgspec.Struct, frozen=True):
    """A key with its rights, from the log."""

    key_id: str
    organisation: str
    role: str
    suppliers: Collection[str]
    secret_sha256: str
    revoked_at: datetime | None
    rate_per_s: int = 0
    created_at: datetime | None = None
    position: int = 0
    step_kind: str = ""
    """Kind of the step of a book that uses this key; "" for keys of importers and others."""

    @property
    def reach(self) -> frozenset[str] | None:
        """Codes of the suppliers that the key may access; None for all."""
        return None if ALL_SUPPLIERS in self.suppliers else frozenset(self.suppliers)

    @property
    def only_supplier(self) -> str:
        """Code of the key's supplier if the key has exactly one, else "".

        Refused requests without a valid supplier count for this supplier.
        """
        return next(iter(self.suppliers)) if self.reach is not None and len(self.suppliers) == 1 else ""

    @property
    def owner(self) -> str:
        """Organisation that owns market data sent with this key; "" (the service) for an operator's key for all
        suppliers.
        """
        return OPERATOR if self.role == "operator" and self.reach is None else self.organisation

    def may_touch(self, supplier: str) -> bool:
        return supplier in self.suppliers or ALL_SUPPLIERS in self.suppliers


class Directory:
    """Suppliers and keys of the whole service."""

    def __init__(self, pool: AsyncConnectionPool) -> None:
        self._pool = pool
        self._suppliers: dict[str, KnownSupplier] = {}
        self._keys: dict[str, Key] = {}
        self._supplier_position = 0
        self._key_position = 0
        self._reads = SharedRuns(self._read)

    async def supplier(self, code: str) -> KnownSupplier | None:
        """Return the supplier; None if it does not exist. If it is not in memory, the database is read."""
        if code not in self._suppliers:
            await self.refresh()
        return self.known_supplier(code)

    def known_supplier(self, code: str) -> KnownSupplier | None:
        """Return the supplier if it is in memory, else None."""
        return self._suppliers.get(code)

    def key(self, key_id: str) -> Key | None:
        return self._keys.get(key_id)

    def lowest_rate(self, organisation: str) -> int:
        """Return the lowest rate limit of the organisation's valid importer keys, 0 if none has one."""
        return min(
            (
                key.rate_per_s
                for key in self._keys.values()
                if (key.organisation, key.role, key.revoked_at) == (organisation, "importer", None) and key.rate_per_s
            ),
            default=0,
        )

    async def refresh(self) -> None:
        """Read suppliers and keys that changed since the last read. Raises StoreUnavailable."""
        await self._reads.run()

    async def _read(self) -> None:
        suppliers, keys = await read(self._pool, _changes, self._supplier_position, self._key_position)
        for supplier in suppliers:
            self._suppliers[supplier.code] = supplier
            self._supplier_position = max(self._supplier_position, supplier.position)
        for key in keys:
            self._keys[key.key_id] = key
            self._key_position = max(self._key_position, key.position)

    async def keep_fresh(self) -> None:
        """Refresh the directory twice a second, also after database errors, until the task is cancelled."""
        while True:
            try:
                await self.refresh()
                supervision.works(KEEPER)
            except (Error, PoolTimeout, StoreUnavailable) as error:
                supervision.failed(KEEPER, error, is_waiting=True)
            await asyncio.sleep(REFRESH_S)


async def _changes(
    connection: AsyncConnection[Any], supplier_position: int, key_position: int
) -> tuple[Sequence[KnownSupplier], Sequence[Key]]:
    suppliers = await fetch_structs(connection, KnownSupplier, SELECT_CHANGED, supplier_position)
    return suppliers, await fetch_structs(connection, Key, SELECT_KEYS, key_position)
