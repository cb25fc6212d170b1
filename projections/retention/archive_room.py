"""Whether a supplier's archive fits: it is written on this machine before it goes to its place, here or elsewhere."""

import shutil
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from psycopg import Connection
from psycopg.rows import tuple_row

_SELECT_EVENTS = """
SELECT count(*), coalesce(sum(octet_length(state)), 0)
FROM events
WHERE supplier = %s AND position <= %s
"""
_SELECT_PAYLOADS = """
SELECT coalesce(sum(octet_length(content)), 0)
FROM payloads
WHERE stream IN (SELECT stream FROM events WHERE supplier = %s AND position <= %s)
"""
_PROOF_BYTES, _BESIDE_BYTES, _ROOM_BYTES = 64, 800, 16_000_000
"""Of a node of a proof, of an event with its payload's line besides what they say, and for good measure."""


def needed_bytes(connection: Connection[Any], supplier: str, position: int) -> int:
    """About how much an archive takes while it is written: payloads as they are, with the smaller parts beside."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        [(events, states)] = cursor.execute(_SELECT_EVENTS, (supplier, position)).fetchall()
        [(payloads,)] = cursor.execute(_SELECT_PAYLOADS, (supplier, position)).fetchall()
    proofs = events * position.bit_length() * _PROOF_BYTES
    return int(payloads + states + proofs + events * _BESIDE_BYTES) + _ROOM_BYTES


def lack_of_room(connection: Connection[Any], supplier: str, url: str, position: int) -> str | None:
    """Where the archive does not fit, as a sentence; None where there is room."""
    needed = needed_bytes(connection, supplier, position)
    places = [Path(tempfile.gettempdir())]
    if url.startswith("file:"):
        places.append(_present(Path(unquote(urlsplit(url).path))))
    for place in places:
        taken = needed * sum(one.stat().st_dev == place.stat().st_dev for one in places)
        free = shutil.disk_usage(place).free
        if free < taken:
            return (
                f"The archive of {supplier} takes about {taken / 1e6:,.0f} MB below {place}, which has "
                f"{free / 1e6:,.0f} MB left. TMPDIR names another place for what is temporary."
            )
    return None


def _present(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    return folder if folder.exists() else _present(folder.parent)
