"""Trace contexts of the requests that staged imports, read from events if traces are on."""

from collections.abc import Sequence

from eventstore.events import metadata_of
from eventstore.log.ledger import Ledger
from telemetry.spans import spans

_SELECT = """
SELECT DISTINCT ON (stream) state FROM events
WHERE stream = ANY(%s) AND topic = 'import_staged.v1'
ORDER BY stream, version DESC
"""


def traceparents(ledger: Ledger, streams: Sequence[str]) -> list[str]:
    """Return the trace contexts of the last requests that staged these imports, if traced. Raises StoreUnavailable."""
    if not spans().is_on:
        return []
    with ledger.connection() as connection:
        known = [metadata_of(row["state"]).traceparent for row in connection.execute(_SELECT, (list(streams),))]
    return [traceparent for traceparent in known if traceparent]
