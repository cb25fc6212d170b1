"""What became of e-mails to customers. Table `customer_mail`; written in the append's transaction."""

from datetime import datetime
from typing import Any

import msgspec

from eventstore.aggregates.customer_mail import CUSTOMER_MAIL as MAIL
from eventstore.aggregates.customer_mail import MailDelivered, MailFailed, MailPostponed, MailRequested, MailStarted
from eventstore.aggregates.import_process import identity_of
from eventstore.events import Recorded


class MailRow(msgspec.Struct, frozen=True, kw_only=True):
    """One message; every event of it says all that its row shows."""

    supplier: str
    external_account_number: str
    status: str
    attempt: int = 0
    worker: int | None = None
    lease_until: datetime | None = None
    due_at: datetime | None = None
    error_code: str | None = None
    modified_at: datetime
    position: int


class CustomerMailView:
    """See the module; `project` is pure."""

    name = "customer_mail"
    columns = MailRow.__struct_fields__
    key_columns = 2
    events = frozenset(MAIL.topics.values())
    upsert = """
        INSERT INTO customer_mail (
            supplier, external_account_number, status, attempt, worker, lease_until, due_at, error_code, modified_at,
            position)
        SELECT n.supplier, n.external_account_number, n.status, n.attempt, n.worker, n.lease_until, n.due_at,
               n.error_code, n.modified_at, appended.base + n.position
        FROM appended, unnest(
            %(customer_mail_supplier)b::text[], %(customer_mail_external_account_number)b::text[],
            %(customer_mail_status)b::text[], %(customer_mail_attempt)b::integer[],
            %(customer_mail_worker)b::bigint[], %(customer_mail_lease_until)b::timestamptz[],
            %(customer_mail_due_at)b::timestamptz[], %(customer_mail_error_code)b::text[],
            %(customer_mail_modified_at)b::timestamptz[], %(customer_mail_position)b::bigint[]
        ) AS n (supplier, external_account_number, status, attempt, worker, lease_until, due_at, error_code,
                modified_at, position)
        ON CONFLICT (supplier, external_account_number) DO UPDATE SET
            status = excluded.status, attempt = excluded.attempt, worker = excluded.worker,
            lease_until = excluded.lease_until, due_at = excluded.due_at, error_code = excluded.error_code,
            modified_at = excluded.modified_at, position = excluded.position
    """

    folds_all = False
    skipped = "false"

    def key_of(self, stream: str) -> dict[str, str] | None:
        return (
            dict(zip(("supplier", "external_account_number"), identity_of(stream), strict=True))
            if stream.startswith("customer-mail/")
            else None
        )

    def project(self, recorded: Recorded, position: int) -> tuple[Any, ...] | None:
        """The row that the event makes, or None for events of other aggregates."""
        match recorded.event:
            case MailRequested():
                said: dict[str, Any] = {"status": "REQUESTED"}
            case MailStarted(attempt=attempt, worker=worker, lease_until=lease_until):
                said = {"status": "SENDING", "attempt": attempt, "worker": worker, "lease_until": lease_until}
            case MailPostponed(attempt=attempt, code=code, due_at=due_at):
                said = {"status": "REQUESTED", "attempt": attempt, "due_at": due_at, "error_code": code}
            case MailDelivered(attempt=attempt):
                said = {"status": "DELIVERED", "attempt": attempt}
            case MailFailed(attempt=attempt, code=code):
                said = {"status": "FAILED", "attempt": attempt, "error_code": code}
            case _:
                return None
        supplier, external = identity_of(recorded.stream)
        row = MailRow(
            supplier=supplier,
            external_account_number=external,
            modified_at=recorded.recorded_at,
            position=position,
            **said,
        )
        return msgspec.structs.astuple(row)


CUSTOMER_MAIL = CustomerMailView()

_LOST = """
  AND (lease_until < %(now)s
       OR NOT EXISTS (
           SELECT FROM pg_locks
           WHERE locktype = 'advisory' AND classid = %(lock_class)s::bigint::oid AND objid::bigint = worker AND granted
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())))
"""

SELECT_ABANDONED_MAILS = f"""
SELECT supplier, external_account_number, attempt
FROM customer_mail
WHERE status = 'SENDING' {_LOST}
ORDER BY modified_at
LIMIT %(limit)s
"""  # noqa: S608 - two constants

SELECT_WAITING_MAILS = """
SELECT supplier, external_account_number
FROM customer_mail
WHERE status = 'REQUESTED' AND position <= %(relayed)s
  AND ((due_at IS NULL AND modified_at < %(lost_before)s) OR due_at <= %(now)s)
ORDER BY modified_at
LIMIT %(limit)s
"""
