"""Records of accounts that came after their import. Table `account_record`; written in the append's transaction."""

from eventstore.aggregates.post_account import RecordCancellationChanged, RecordImported, identity_of
from eventstore.events import Recorded
from eventstore.operations.rights import Rights
from projections.versions.view import Values, View


def _record(event: RecordImported | RecordCancellationChanged, recorded: Recorded) -> Values:
    supplier, external, _ = identity_of(recorded.stream)
    return {
        "kind": recorded.stream.split("/", 1)[0],
        "supplier": supplier,
        "external_account_number": external,
        "account_number": event.account_number,
        "is_cancelled": event.is_cancelled,
    }


ACCOUNT_RECORD = View(
    "account_record",
    "stream text NOT NULL, kind text NOT NULL, supplier text NOT NULL, external_account_number text NOT NULL,"
    " account_number text NOT NULL, is_cancelled boolean NOT NULL, created_at timestamptz NOT NULL,"
    " modified_at timestamptz NOT NULL, position bigint NOT NULL",
    {RecordImported: _record, RecordCancellationChanged: _record},
    named=("stream",),
    first=("kind", "supplier", "external_account_number", "account_number", "created_at"),
    indexes={"account_record_of_account": "(supplier, external_account_number)"},
    rights=Rights(api="SIU"),
)

SELECT_RECORDS = """
SELECT stream
FROM account_record
WHERE supplier = %s AND external_account_number = %s
ORDER BY created_at, stream
"""
