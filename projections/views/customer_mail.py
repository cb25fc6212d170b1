"""What became of e-mails to customers. Table `customer_mail`; written in the append's transaction."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from eventstore.aggregates.customer_mail import CUSTOMER_MAIL as MAIL
from eventstore.aggregates.customer_mail import MailDelivered, MailFailed, MailPostponed, MailRequested, MailStarted
from eventstore.aggregates.import_process import identity_of
from eventstore.events import Recorded
from eventstore.operations.rights import Rights
from projections.versions.view import View


class MailRow(msgspec.Struct, frozen=True, kw_only=True):
    """One message. Each of its events has all that the row shows, so that the last one is enough."""

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


def mail_row(recorded: Recorded, position: int) -> MailRow | None:
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
    return MailRow(
        supplier=supplier,
        external_account_number=external,
        modified_at=recorded.recorded_at,
        position=position,
        **said,
    )


def _key_of(stream: str) -> dict[str, str] | None:
    names = ("supplier", "external_account_number")
    return dict(zip(names, identity_of(stream), strict=True)) if stream.startswith("customer-mail/") else None


CUSTOMER_MAIL = View(
    "customer_mail",
    MailRow,
    mail_row,
    events=MAIL.topics.values(),
    rights=Rights(worker="SIU", relay="SIU"),
    key=("supplier", "external_account_number"),
    key_of=_key_of,
    types={"attempt": "integer"},
    indexes={"customer_mail_open": "(status, modified_at) WHERE status IN ('REQUESTED', 'SENDING')"},
)

_LOST = """
  AND (lease_until < statement_timestamp()
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
SELECT supplier, external_account_number, modified_at, position
FROM customer_mail
WHERE status = 'REQUESTED' AND position <= %(relayed)s AND (due_at IS NULL OR due_at <= statement_timestamp())
  AND (modified_at, supplier, external_account_number) > (%(modified_at)s, %(supplier)s, %(external_account_number)s)
ORDER BY modified_at, supplier, external_account_number
LIMIT %(limit)s
"""
FIRST_MAIL: dict[str, str | datetime] = {
    "modified_at": datetime.min.replace(tzinfo=UTC),
    "supplier": "",
    "external_account_number": "",
}
"""Start of the waiting mails."""
