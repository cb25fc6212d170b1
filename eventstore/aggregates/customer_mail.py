"""E-mail to the customer of a new account: requested with the account, sent at most once. Pure.

A crash between the start of an attempt and its outcome leaves open whether the message was sent. Such a message fails
with `outcome_unknown` and is never sent again.
"""

from datetime import datetime
from typing import assert_never

from eventstore.aggregates.aggregate import Aggregate, Command, Count, Digest, Event, Events, Instant, State, event_of
from eventstore.errors import IllegalTransition


class MailRequested(Event, frozen=True):
    """The account exists and its supplier sends e-mails. The payload with this digest holds the recipient."""

    account_number: str
    payload_sha256: Digest
    language: str


class MailStarted(Event, frozen=True):
    """A worker is about to send the message. After `lease_until` the worker counts as lost."""

    attempt: Count
    worker: Count
    lease_until: Instant


class MailPostponed(Event, frozen=True):
    """The message was not sent, for a reason that is expected to pass. The next attempt is at `due_at` or later."""

    attempt: Count
    code: str
    due_at: Instant


class MailDelivered(Event, frozen=True):
    """The mail server has accepted the message."""

    attempt: Count
    message_id: str


class MailFailed(Event, frozen=True):
    """The message is not tried again. With the code `outcome_unknown` it may have been sent."""

    attempt: Count
    code: str
    detail: str = ""


MailEvent = MailRequested | MailStarted | MailPostponed | MailDelivered | MailFailed


class RequestMail(Command, frozen=True):
    """Send the customer an e-mail about the account."""

    account_number: str
    payload_sha256: str
    language: str


class StartMail(Command, frozen=True):
    """Start an attempt if the message is due. After `max_attempts` the message fails instead."""

    worker: int
    lease_until: datetime
    max_attempts: int


class PostponeMail(Command, frozen=True):
    """Record that nothing was sent, and try again at `due_at`."""

    attempt: int
    code: str
    due_at: datetime


class DeliverMail(Command, frozen=True):
    """Record that the mail server has accepted the message."""

    attempt: int
    message_id: str


class FailMail(Command, frozen=True):
    """Record that no further attempt is made."""

    attempt: int
    code: str
    detail: str = ""


class CustomerMail(State, frozen=True):
    """State of one message. `requested` holds account, payload and language."""

    status: str = "NEW"
    requested: MailRequested | None = None
    attempt: int = 0
    due_at: datetime | None = None


def decide(command: Command, mail: CustomerMail, at: datetime) -> MailEvent | None:
    """Return the event that follows, or None. Raises IllegalTransition."""
    match command, mail.status:
        case RequestMail(), "NEW":
            return event_of(MailRequested, command)
        case RequestMail(), _:
            return None
        case StartMail(), "REQUESTED" if mail.due_at is None or mail.due_at <= at:
            if mail.attempt >= command.max_attempts:
                return MailFailed(attempt=mail.attempt, code="attempts_exhausted")
            return event_of(MailStarted, command, attempt=mail.attempt + 1)
        case StartMail(), _:
            return None  # started by another worker, ended, or not due
        case PostponeMail(), "SENDING" if command.attempt == mail.attempt:
            return event_of(MailPostponed, command)
        case DeliverMail(), "SENDING" if command.attempt == mail.attempt:
            return event_of(MailDelivered, command)
        case FailMail(), "SENDING" if command.attempt == mail.attempt:
            return event_of(MailFailed, command)
    raise IllegalTransition(mail.status, type(command).__name__)


def evolve(mail: CustomerMail, event: MailEvent) -> CustomerMail:
    """Return the state after the event."""
    match event:
        case MailRequested():
            return CustomerMail(status="REQUESTED", requested=event)
        case MailStarted(attempt=attempt):
            return CustomerMail(status="SENDING", requested=mail.requested, attempt=attempt)
        case MailPostponed(attempt=attempt, due_at=due_at):
            return CustomerMail(status="REQUESTED", requested=mail.requested, attempt=attempt, due_at=due_at)
        case MailDelivered(attempt=attempt):
            return CustomerMail(status="DELIVERED", requested=mail.requested, attempt=attempt)
        case MailFailed(attempt=attempt):
            return CustomerMail(status="FAILED", requested=mail.requested, attempt=attempt)
        case _:
            assert_never(event)


def stream_of(supplier: str, external_account_number: str) -> str:
    return f"customer-mail/{supplier}/{external_account_number}"


EVENTS: Events = {
    "mail_requested.v1": (MailRequested, RequestMail),
    "mail_started.v1": (MailStarted, StartMail),
    "mail_postponed.v1": (MailPostponed, PostponeMail),
    "mail_delivered.v1": (MailDelivered, DeliverMail),
    "mail_failed.v1": (MailFailed, FailMail),
}
CUSTOMER_MAIL = Aggregate("customer-mail", EVENTS, CustomerMail(), decide, evolve, parts=3)
