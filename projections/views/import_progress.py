"""Numbers of a supplier's imports by status. Follows the log."""

from collections.abc import Iterator
from typing import Any

from psycopg import AsyncConnection

from eventstore.aggregates.import_process import STATUS_AFTER, STATUS_AFTER_TOPIC, SubjectErased, status_after
from projections.versions.following import Counter
from projections.versions.reading import Seen
from schemas.status import SupplierProgress


def project(seen: Seen) -> Iterator[tuple[str, str, int]]:
    """Yield (supplier, status, number): 1 for the status after the event, -1 for the status before it. Pure."""
    supplier = seen.recorded.supplier or ""
    yield supplier, status_after(seen.recorded.event), 1
    if seen.previous is not None:
        yield supplier, STATUS_AFTER_TOPIC[seen.previous], -1


IMPORT_PROGRESS = Counter(
    "import_progress",
    events=(*STATUS_AFTER, SubjectErased),
    columns="supplier text NOT NULL, status text NOT NULL, number bigint NOT NULL, PRIMARY KEY (supplier, status)",
    folds_all=False,
    project=project,
)

_SELECT = "SELECT status, number FROM import_progress WHERE supplier = %s ORDER BY status"


async def supplier_progress(connection: AsyncConnection[Any], supplier: str) -> SupplierProgress:
    """Read the numbers of a supplier's imports by status, without statuses of no import."""
    rows = await (await connection.execute(_SELECT, (supplier,), prepare=True)).fetchall()
    counts = {status: number for status, number in rows if number}
    return SupplierProgress(import_supplier=supplier, total=sum(counts.values()), by_status=counts)
