"""Places of archived payloads, as the log records them."""

from typing import Any

from psycopg import Connection
from psycopg.rows import tuple_row

from eventstore.aggregates.supplier import SupplierArchived, stream_of
from eventstore.events import read_event, subject_of
from eventstore.log.payloads import is_erased

_SELECT_ARCHIVE = """
SELECT topic, state
FROM events
WHERE stream = %s AND topic IN ('supplier_archived.v1', 'archive_attached.v1')
ORDER BY version DESC
LIMIT 1
"""


def archive_of(connection: Connection[Any], code: str) -> SupplierArchived | None:
    """Return the supplier's archive by the log; None if its payloads are in the database."""
    with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
        row = cursor.execute(_SELECT_ARCHIVE, (stream_of(code),)).fetchone()
    event = read_event(stream_of(code), *row) if row else None
    return event if isinstance(event, SupplierArchived) else None


def told_of_detached(connection: Connection[Any], code: str, detached: int) -> tuple[str, dict[str, Any]]:
    """Return the number of payloads that a file lacks, as a sentence and as members of JSON."""
    archived = archive_of(connection, code) if detached else None
    members = {"detached": detached, "archive": archived.url if archived else None}
    if not detached:
        return "", members
    if archived is None:
        return f"\n{detached:,} payloads are not in it, nor in an archive: see `importledger verify --all`.", members
    where = f"they lie in {archived.url}; `importledger archive attach {code}` brings them back"
    return f"\n{detached:,} payloads are not in it: {where}.", members


def archived_place(connection: Connection[Any], code: str | None, stream: str) -> str | None:
    """Return the archive of a payload that is not in the database; None if it was erased."""
    archived = archive_of(connection, code) if code else None
    return None if archived is None or is_erased(connection, subject_of(stream) or stream) else archived.url


def why_missing(connection: Connection[Any], code: str | None, stream: str) -> str:
    """Return why a payload of the supplier is missing, as the end of a sentence."""
    place = archived_place(connection, code, stream)
    return f"lies in {place}; `importledger archive attach {code}` brings it back" if place else "was erased"
