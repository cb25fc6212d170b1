"""Status of e-mails to customers. Table `customer_mail`; written in the append's transaction."""

from datetime import UTC, datetime

from eventstore.aggregates.customer_mail import CUSTOMER_MAIL as MAIL
from eventstore.aggregates.customer_mail import (
    MailCancelled,
    MailDelivered,
    MailFailed,
    MailPostponed,
    MailRequested,
    MailStarted,
)
from eventstore.operations.rights import Rights
from projections.versions.view import View

CUSTOMER_MAIL = View(
    "customer_mail",
    "supplier text NOT NULL, external_account_number text NOT NULL, status text NOT NULL, attempt integer NOT NULL,"
    " worker bigint, lease_until timestamptz, due_at timestamptz, error_code text, modified_at timestamptz NOT NULL,"
    " position bigint NOT NULL",
    {
        MailRequested: {"status": "REQUESTED", "attempt": 0},
        MailStarted: lambda event, _: {
            "status": "SENDING",
            "attempt": event.attempt,
            "worker": event.worker,
            "lease_until": event.lease_until,
        },
        MailPostponed: lambda event, _: {
            "status": "REQUESTED",
            "attempt": event.attempt,
            "due_at": event.due_at,
            "error_code": event.code,
        },
        MailDelivered: lambda event, _: {"status": "DELIVERED", "attempt": event.attempt},
        MailCancelled: {"status": "CANCELLED", "attempt": 0},
        MailFailed: lambda event, _: {"status": "FAILED", "attempt": event.attempt, "error_code": event.code},
    },
    prefix=MAIL.prefix,
    named=("supplier", "external_account_number"),
    indexes={"customer_mail_open": "(status, modified_at) WHERE status IN ('REQUESTED', 'SENDING')"},
    rights=Rights(worker="SIU", relay="SIU"),
)
"""View of e-mails. Each event has all values of the row, so that a rebuild needs only the last event of a stream."""

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
"""Parameters of SELECT_WAITING_MAILS for the first page."""
