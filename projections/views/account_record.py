"""The records attached to accounts after their import. Table `account_record`; written in the append's transaction."""

from datetime import datetime

import msgspec

from eventstore.aggregates.post_account import DELIVERY_NOTE, RecordCancellationChanged, RecordImported, identity_of
from eventstore.events import Recorded
from eventstore.operations.rights import Rights
from projections.versions.view import View


class RecordRow(msgspec.Struct, frozen=True, kw_only=True):
    """One record. `created_at` counts for a new row."""

    stream: str
    kind: str
    supplier: str
    external_account_number: str
    account_number: str
    is_cancelled: bool
    created_at: datetime
    modified_at: datetime
    position: int


def record_row(recorded: Recorded, position: int) -> RecordRow | None:
    """The row that the event makes, or None for events of other aggregates."""
    match recorded.event:
        case RecordImported() | RecordCancellationChanged() as event:
            supplier, external, _ = identity_of(recorded.stream)
        case _:
            return None
    return RecordRow(
        stream=recorded.stream,
        kind=recorded.stream.split("/", 1)[0],
        supplier=supplier,
        external_account_number=external,
        account_number=event.account_number,
        is_cancelled=event.is_cancelled,
        created_at=recorded.recorded_at,
        modified_at=recorded.recorded_at,
        position=position,
    )


ACCOUNT_RECORD = View(
    "account_record",
    RecordRow,
    record_row,
    events=DELIVERY_NOTE.topics.values(),
    rights=Rights(api="SIU"),
    key=("stream",),
    key_of=lambda stream: {"stream": stream},
    first=("kind", "supplier", "external_account_number", "account_number", "created_at"),
    indexes={"account_record_of_account": "(supplier, external_account_number)"},
)

SELECT_RECORDS = """
SELECT stream
FROM account_record
WHERE supplier = %s AND external_account_number = %s
ORDER BY created_at, stream
"""
