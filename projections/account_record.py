"""The records attached to accounts after their import. Table `account_record`; written in the append's transaction."""

from datetime import datetime
from typing import Any

import msgspec

from eventstore.aggregates.post_account import TOPICS, RecordCancellationChanged, RecordImported, identity_of
from eventstore.events import Recorded


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


class AccountRecordView:
    """See the module; `project` is pure."""

    name = "account_record"
    columns = RecordRow.__struct_fields__
    key_columns = 1
    events = frozenset(TOPICS.values())
    upsert = """
        INSERT INTO account_record (
            stream, kind, supplier, external_account_number, account_number, is_cancelled, created_at, modified_at,
            position)
        SELECT n.stream, n.kind, n.supplier, n.external_account_number, n.account_number, n.is_cancelled,
               n.created_at, n.modified_at, appended.base + n.position
        FROM appended, unnest(
            %(account_record_stream)b::text[], %(account_record_kind)b::text[], %(account_record_supplier)b::text[],
            %(account_record_external_account_number)b::text[], %(account_record_account_number)b::text[],
            %(account_record_is_cancelled)b::boolean[], %(account_record_created_at)b::timestamptz[],
            %(account_record_modified_at)b::timestamptz[], %(account_record_position)b::bigint[]
        ) AS n (stream, kind, supplier, external_account_number, account_number, is_cancelled, created_at,
                modified_at, position)
        ON CONFLICT (stream) DO UPDATE SET
            is_cancelled = excluded.is_cancelled, modified_at = excluded.modified_at, position = excluded.position
    """

    folds_all = False
    skipped = "false"

    def key_of(self, stream: str) -> dict[str, str] | None:
        return {"stream": stream}

    def project(self, recorded: Recorded, position: int) -> tuple[Any, ...] | None:
        """The row that the event makes, or None for events of other aggregates."""
        match recorded.event:
            case RecordImported() | RecordCancellationChanged() as event:
                supplier, external, _ = identity_of(recorded.stream)
            case _:
                return None
        row = RecordRow(
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
        return msgspec.structs.astuple(row)


ACCOUNT_RECORD = AccountRecordView()

SELECT_RECORDS = """
SELECT stream
FROM account_record
WHERE supplier = %s AND external_account_number = %s
ORDER BY created_at, stream
"""
