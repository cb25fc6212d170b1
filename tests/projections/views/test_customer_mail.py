"""What became of a message is what its last event says."""

import pytest

from eventstore.aggregates.aggregate import Event
from eventstore.aggregates.customer_mail import MailDelivered, MailFailed, MailPostponed, MailStarted
from eventstore.events import Recorded
from projections.views.customer_mail import mail_row
from tests.support.make import LEASE_UNTIL, NOON, staged


@pytest.mark.parametrize(
    ("event", "status", "code"),
    [
        (MailStarted(attempt=1, worker=7, lease_until=LEASE_UNTIL), "SENDING", None),
        (MailPostponed(attempt=1, code="busy", due_at=LEASE_UNTIL), "REQUESTED", "busy"),
        (MailDelivered(attempt=1, message_id="<1@example.com>"), "DELIVERED", None),
        (MailFailed(attempt=1, code="refused"), "FAILED", "refused"),
    ],
)
def test_each_event_says_all_that_the_row_shows(event: Event, status: str, code: str | None) -> None:
    row = mail_row(Recorded("customer-mail/S/1", 2, event, NOON, "S", "t", None, 5, "1"), 5)
    assert row is not None
    assert (row.supplier, row.external_account_number, row.attempt) == ("S", "1", 1)
    assert (row.status, row.error_code, row.position) == (status, code, 5)


def test_other_events_make_no_row() -> None:
    assert mail_row(Recorded("import/S/1", 1, staged(), NOON, "S", "t", None, 1, "1"), 1) is None
