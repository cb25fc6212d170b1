"""E-mail to the customer of a new account: requested with the account, sent at most once for each account. Pure.

A crash between the start of an attempt and its outcome leaves open whether the message was sent. Such a message fails
with `outcome_unknown` and is never sent again. A reverted account cancels its message. The next account of the same
external number has another number, and may request another message. Attempts are numbered through all messages of
the stream, so that a late worker cannot end the wrong message.
"""

from datetime import datetime
from typing import assert_never

from msgspec.structs import replace

from eventstore.aggregates.aggregate import Aggregate, Command, Count, Digest, Event, Events, Instant, State, event_of
from eventstore.errors import IllegalTransition


class MailRequested(Event, frozen=True):
    """An e-mail to the customer of a new account was requested.

    The payload with the event's digest has the recipient.
    """

    account_number: str
    payload_sha256: Digest
    language: str


class MailStarted(Event, frozen=True):
    """A worker begins to send the message. After `lease_until`, the worker counts as lost."""

    attempt: Count
    worker: Count
    lease_until: Instant


class MailPostponed(Event, frozen=True):
    """The message was not sent, for a temporary reason. The next attempt is at `due_at` or later."""

    attempt: Count
    code: str
    due_at: Instant


class MailDelivered(Event, frozen=True):
    """The mail server has accepted the message."""

    attempt: Count
    message_id: str


class MailFailed(Event, frozen=True):
    """The message is not sent again.

    With the code `outcome_unknown`, the message may have been sent.
    """

    attempt: Count
    code: str
    detail: str = ""


class MailCancelled(Event, frozen=True):
    """The account was reverted: the message is not sent. A worker that was sending it may still record the outcome."""


MailEvent = MailRequested | MailStarted | MailPostponed | MailDelivered | MailFailed | MailCancelled


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
    """Record that the message was not sent, and try again at `due_at`."""

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


class CancelMail(Command, frozen=True):
    """Do not send the message."""


class CustomerMail(State, frozen=True):
    """State of one message. `requested` holds account, payload and language.

    `attempt` counts the attempts of all messages of the stream, and `earlier` the attempts of previous messages.
    """

    status: str = "NEW"
    requested: MailRequested | None = None
    attempt: int = 0
    earlier: int = 0
    due_at: datetime | None = None

    def is_about(self, account_number: str) -> bool:
        return self.requested is not None and self.requested.account_number == account_number


def decide(command: Command, mail: CustomerMail, at: datetime) -> MailEvent | None:  # noqa: C901 - one match, a case for each command and state
    """Return the event that follows, or None. Raises IllegalTransition."""
    match command, mail.status:
        case RequestMail(), "NEW":
            return event_of(MailRequested, command)
        case RequestMail(), "DELIVERED" | "FAILED" | "CANCELLED" if not mail.is_about(command.account_number):
            return event_of(MailRequested, command)
        case RequestMail(), _:
            return None
        case StartMail(), "REQUESTED" if mail.due_at is None or mail.due_at <= at:
            if mail.attempt - mail.earlier >= command.max_attempts:
                return MailFailed(attempt=mail.attempt, code="attempts_exhausted")
            return event_of(MailStarted, command, attempt=mail.attempt + 1)
        case StartMail(), _:
            return None  # started by another worker, ended, or not due
        case PostponeMail(), "SENDING" if command.attempt == mail.attempt:
            return event_of(MailPostponed, command)
        case DeliverMail(), "SENDING" | "CANCELLED" if command.attempt == mail.attempt:
            return event_of(MailDelivered, command)
        case ((PostponeMail() | FailMail()), "CANCELLED") if command.attempt == mail.attempt:
            return None
        case FailMail(), "SENDING" if command.attempt == mail.attempt:
            return event_of(MailFailed, command)
        case CancelMail(), "REQUESTED" | "SENDING":
            return MailCancelled()
        case CancelMail(), _:
            return None
    raise IllegalTransition(mail.status, type(command).__name__)


def evolve(mail: CustomerMail, event: MailEvent) -> CustomerMail:
    """Return the state after the event."""
    match event:
        case MailRequested():
            return CustomerMail(status="REQUESTED", requested=event, attempt=mail.attempt, earlier=mail.attempt)
        case MailStarted(attempt=attempt):
            return replace(mail, status="SENDING", attempt=attempt, due_at=None)
        case MailPostponed(due_at=due_at):
            return replace(mail, status="REQUESTED", due_at=due_at)
        case MailDelivered():
            return replace(mail, status="DELIVERED")
        case MailFailed():
            return replace(mail, status="FAILED", due_at=None)
        case MailCancelled():
            return replace(mail, status="CANCELLED", due_at=None)
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
    "mail_cancelled.v1": (MailCancelled, CancelMail),
}
CUSTOMER_MAIL = Aggregate("customer-mail", EVENTS, CustomerMail(), decide, evolve, parts=3)
