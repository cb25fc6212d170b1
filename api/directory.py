"""Who may call and which suppliers there are, in memory: refreshed twice a second, by what is new in the log.

A name that is not known here is looked up at once, so that a supplier or key can be used as soon as it exists.
"""

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
import structlog
from psycopg import AsyncConnection, Error
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from api.store import read
from eventstore.errors import StoreUnavailable
from market.judging import Terms
from projections.access_key import SELECT_KEYS
from projections.import_supplier import SELECT_SUPPLIERS

REFRESH_S = 0.5
ALL_SUPPLIERS = "*"

logger = structlog.get_logger()


class Key(msgspec.Struct, frozen=True):
    """A key as the log has it."""

    key_id: str
    organisation: str
    role: str
    suppliers: frozenset[str]
    secret_sha256: str
    revoked_at: datetime | None
    rate_per_s: int = 0

    @property
    def reach(self) -> frozenset[str] | None:
        """The suppliers that it may touch; None for all."""
        return None if ALL_SUPPLIERS in self.suppliers else self.suppliers

    @property
    def only_supplier(self) -> str:
        """The one supplier that it may touch, for which whatever names no other was meant; "" where there are more."""
        return next(iter(self.suppliers)) if self.reach is not None and len(self.suppliers) == 1 else ""

    def may_touch(self, supplier: str) -> bool:
        return supplier in self.suppliers or ALL_SUPPLIERS in self.suppliers


class SupplierEntry(msgspec.Struct, frozen=True):
    """A supplier as the log has it."""

    status: str
    strictness: str
    unknown_fields: str
    is_dry_run_only: bool

    @property
    def terms(self) -> Terms:
        return Terms(
            strictness=self.strictness, unknown_fields=self.unknown_fields, is_dry_run_only=self.is_dry_run_only
        )


class Directory:
    """Suppliers and keys of the whole service."""

    def __init__(self, pool: AsyncConnectionPool) -> None:
        self._pool = pool
        self._suppliers: dict[str, SupplierEntry] = {}
        self._keys: dict[str, Key] = {}
        self._supplier_position = 0
        self._key_position = 0
        self._began_at = 0.0
        self._lock = asyncio.Lock()

    async def supplier(self, code: str) -> SupplierEntry | None:
        """The supplier; None for one that does not exist, of which the log has been asked."""
        if code not in self._suppliers:
            await self.refresh()
        return self._suppliers.get(code)

    def key(self, key_id: str) -> Key | None:
        return self._keys.get(key_id)

    async def refresh(self) -> None:
        """Read what is new. Who asks while that is being done shares the next turn. Raises StoreUnavailable."""
        asked_at = time.monotonic()
        async with self._lock:
            if self._began_at > asked_at:
                return
            self._began_at = time.monotonic()
            suppliers, keys = await read(self._pool, _news, self._supplier_position, self._key_position)
            for row in suppliers:
                self._suppliers[row[0]] = SupplierEntry(row[1], row[3], row[4], row[5])
                self._supplier_position = max(self._supplier_position, row[8])
            for row in keys:
                self._keys[row[0]] = Key(row[0], row[1], row[2], frozenset(row[3]), row[4], row[6], row[8])
                self._key_position = max(self._key_position, row[7])

    async def keep_fresh(self) -> None:
        """Refresh for ever; the loss of the database is waited out."""
        while True:
            try:
                await self.refresh()
            except (Error, PoolTimeout, StoreUnavailable) as error:
                logger.warning("directory is stale", reason=type(error).__name__)
            await asyncio.sleep(REFRESH_S)


async def _news(
    connection: AsyncConnection[Any], supplier_position: int, key_position: int
) -> tuple[Sequence[Any], Sequence[Any]]:
    suppliers = await (await connection.execute(SELECT_SUPPLIERS, (supplier_position,))).fetchall()
    keys = await (await connection.execute(SELECT_KEYS, (key_position,))).fetchall()
    return suppliers, keys
