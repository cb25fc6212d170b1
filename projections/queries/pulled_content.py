"""Content of a supplier's accounts and their records, in the format of imports, in the order of the imports."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from psycopg import AsyncConnection
from psycopg.rows import tuple_row

from projections.platform.objects import object_writer, select_objects
from projections.platform.tables import ACCOUNT_TABLE, RECORD_TABLES
from schemas.account import Account
from schemas.delivery_note import DeliveryNote
from schemas.energy_amount import EnergyAmount
from schemas.invoice import MarketParticipantInvoice

PAGE = 100
"""Imports per page."""
PAGE_BYTES = 2**20
"""Bytes after which a page ends. The last account or record may exceed this limit."""

ContentKey = tuple[int, int, str]
"""Sort key of a line: position of the import, kind, and reference of a record."""
LAST_KIND = 9
"""Number after all kinds. `(position, LAST_KIND, "")` is the end of an import."""


class PulledLine(NamedTuple):
    """A line with its account's external number, and whether it has the content of an account or a record."""

    line: bytes
    external: str
    has_content: bool


_KINDS: tuple[tuple[str, Callable[[str], bytes]], ...] = (
    ("account", object_writer(Account)),
    ("delivery_note", object_writer(DeliveryNote)),
    ("energy_amount", object_writer(EnergyAmount)),
    ("market_participant_invoice", object_writer(MarketParticipantInvoice)),
)
"""Name and writer of each kind of content, by its number in the query."""
_LEFT_OUT = "left_out"


def _selects() -> str:
    account = select_objects(ACCOUNT_TABLE, "s.account_number")
    selects = [f"SELECT 0 AS kind, '' AS reference, content FROM ({account} AND t.erased_at IS NULL) AS o"]  # noqa: S608
    for kind, table in enumerate(RECORD_TABLES.values(), 1):
        records = select_objects(table, "s.account_number")
        selects.append(f"(SELECT {kind}, reference, content FROM ({records}) AS o ORDER BY reference)")  # noqa: S608
    return " UNION ALL ".join(selects)


_PLANNING = "SET LOCAL jit = off; SET LOCAL enable_nestloop = off"
"""Settings of the query. Compiling takes longer than the query; a nested loop over lists would be quadratic."""
_SELECT_CONTENT = f"""
SELECT s.created_position, s.external_account_number, s.status,
       EXISTS (SELECT FROM platform.service_account AS a WHERE a.account_number = s.account_number),
       c.kind, c.reference, c.content
FROM (
    SELECT created_position, external_account_number, status, account_number
    FROM import_status
    WHERE supplier = %(supplier)s AND created_position >= %(position)s
    ORDER BY created_position
    LIMIT %(limit)s
) AS s
LEFT JOIN LATERAL ({_selects()}) AS c ON true
WHERE (s.created_position, coalesce(c.kind, 0), coalesce(c.reference, '')) > (%(position)s, %(kind)s, %(reference)s)
"""  # noqa: S608 - names of tables and columns
"""Query of contents in the order of the imports: a nested loop keeps the order of the rows on its left side."""


async def pulled_content(
    connection: AsyncConnection[Any], after: ContentKey, *, supplier: str
) -> tuple[list[PulledLine], ContentKey | None]:
    """Return the next lines of a supplier after a sort key, and the sort key of the last line; None at the end."""
    position, kind, reference = after
    parameters = {
        "supplier": supplier,
        "position": position + (kind == LAST_KIND),
        "kind": -1 if kind == LAST_KIND else kind,
        "reference": reference,
        "limit": PAGE,
    }
    lines: list[PulledLine] = []
    size, key, row = 0, after, None
    async with connection.transaction():
        await connection.execute(_PLANNING)
        async with connection.cursor("pulled_content", row_factory=tuple_row) as cursor:
            await cursor.execute(_SELECT_CONTENT.encode(), parameters)
            while size < PAGE_BYTES and (row := await cursor.fetchone()) is not None:
                line, key = _line(supplier, *row)
                lines.append(line)
                size += len(line.line)
    if row is None:  # the last import was read completely
        key = (key[0], LAST_KIND, "")
    return lines, key if key != after else None


def _line(
    supplier: str,
    position: int,
    external: str,
    status: str,
    exists: bool,
    kind: int | None,
    reference: str,
    content: str,
) -> tuple[PulledLine, ContentKey]:
    """Return the line of a row, and its sort key."""
    if kind is None:
        state = status if status != "PROCESSED" else "ERASED" if exists else "MISSING"
        payload: Any = {"external_account_number": external, "status": state}
        return PulledLine(_encoded(position, _LEFT_OUT, payload), external, False), (position, LAST_KIND, "")
    name, write = _KINDS[kind]
    payload = msgspec.Raw(write(content))
    if kind:
        payload = {"import_supplier": supplier, "external_account_number": external, name: payload}
    return PulledLine(_encoded(position, name, payload), external, True), (position, kind, reference)


def _encoded(position: int, kind: str, payload: Any) -> bytes:
    return msgspec.json.encode({"position": position, "kind": kind, "payload": payload}) + b"\n"
