"""Sending e-mails to customers: once at most, after the account is durable, each outcome an event.

An attempt is in the log before the mail server is asked. Up to the message's last byte a failure is certain and may
be tried again; after that, without an answer, nobody knows, and the message is not sent again.
"""

import hashlib
import smtplib
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from email.utils import parseaddr
from urllib.parse import unquote, urlsplit

import msgspec
import structlog

from eventstore.aggregates import import_process
from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.customer_mail import (
    CustomerMail,
    DeliverMail,
    FailMail,
    MailStarted,
    PostponeMail,
    StartMail,
)
from eventstore.clock import now
from eventstore.errors import StoreUnavailable
from eventstore.log.ledger import Ledger
from projections.archiving import archived_place
from schemas.shape import NotJson
from schemas.submission import stored_submission
from workers.backoff import backoff
from workers.mail_text import message_about, on_the_wire, recipient_of

MAX_ATTEMPTS = 8
LEASE = timedelta(seconds=120)
TIMEOUT_S = 15.0

logger = structlog.get_logger()


class MailServer(msgspec.Struct, frozen=True):
    """`smtp://[user:password@]host[:port]` (STARTTLS where the server offers it) or `smtps://…`, and the sender."""

    url: str
    sender: str


class NotSent(Exception):
    """The message was certainly not sent. `is_final`: it will not be sent at another time either."""

    def __init__(self, code: str, *, is_final: bool) -> None:
        super().__init__(code)
        self.code = code
        self.is_final = is_final


class MailSender:
    """Takes requested messages up and brings each to its end. `worker` gives the id whose lock says that it lives."""

    def __init__(self, ledger: Ledger, server: MailServer | None, *, worker: Callable[[], int]) -> None:
        self._ledger = ledger
        self._server = server
        self._worker = worker

    def send(self, streams: list[str]) -> None:
        """Send what these streams request and nobody has taken up. Without a mail server, requests wait."""
        if self._server is None:
            return
        try:
            for stream in streams:
                self._send(self._server, stream)
        except StoreUnavailable as error:
            logger.warning("mails left to the sweeper", reason=str(error))

    @property
    def _by(self) -> str:
        return f"worker:{self._worker()}"

    def _send(self, server: MailServer, stream: str) -> None:
        at = self._ledger.time()
        start = StartMail(worker=self._worker(), lease_until=at + LEASE, max_attempts=MAX_ATTEMPTS)
        [outcome] = self._ledger.execute_many({stream: start}, at=at, by=self._by)
        if outcome.recorded and isinstance(outcome.recorded.event, MailStarted):
            ended = self._ended(server, stream, outcome.state)
            self._ledger.execute_many({stream: ended}, at=now(), by=self._by)

    def _ended(self, server: MailServer, stream: str, mail: CustomerMail) -> Command:
        """Send, and give the command that records the outcome: whatever happens, the attempt ends."""
        attempt = mail.attempt
        try:
            message = self._message(server, stream, mail)
            if isinstance(message, str):
                return FailMail(attempt=attempt, code=message)
            letter = letter_of(message)
        except StoreUnavailable:
            raise
        except Exception as error:
            logger.warning("mail cannot be written", stream=stream, reason=type(error).__name__)
            return FailMail(attempt=attempt, code="message_not_possible")
        try:
            deliver(server.url, letter)
        except NotSent as failure:
            logger.info("mail not sent", stream=stream, code=failure.code, attempt=attempt)
            if failure.is_final:
                return FailMail(attempt=attempt, code=failure.code)
            return PostponeMail(attempt=attempt, code=failure.code, due_at=self._ledger.time() + backoff(attempt))
        except Exception as error:
            logger.warning("mail outcome unknown", stream=stream, reason=type(error).__name__)
            return FailMail(attempt=attempt, code="outcome_unknown")
        return DeliverMail(attempt=attempt, message_id=str(message["Message-ID"]))

    def _message(self, server: MailServer, stream: str, mail: CustomerMail) -> EmailMessage | str:
        """The message, or an error code when none can be made."""
        assert mail.requested is not None
        source = import_process.stream_of(*import_process.identity_of(stream))
        body = self._ledger.payloads({source: mail.requested.payload_sha256}).get(source)
        if body is None:
            with self._ledger.connection() as connection:
                place = archived_place(connection, import_process.identity_of(stream)[0], source)
            return "payload_archived" if place is not None else "payload_erased"
        try:
            account = stored_submission(body).account
        except NotJson:
            return "payload_unreadable"
        recipient = recipient_of(account)
        if recipient is None:
            return "no_email_address"
        host = on_the_wire(*parseaddr(server.sender)).domain or "localhost"
        return message_about(
            account,
            recipient,
            account_number=mail.requested.account_number,
            language=mail.requested.language,
            sender=server.sender,
            message_id=f"<{hashlib.sha256(stream.encode()).hexdigest()[:32]}@{host}>",
        )


class Letter(msgspec.Struct, frozen=True):
    """A message as it goes out. `is_utf8`: an address in it has letters that only SMTPUTF8 (RFC 6531) can carry."""

    sender: str
    recipient: str
    content: bytes
    is_utf8: bool


def letter_of(message: EmailMessage) -> Letter:
    """The message with its two addresses. Raises ValueError for what cannot be written."""
    sender, recipient = (message[name].addresses[0].addr_spec for name in ("From", "To"))
    is_utf8 = not (sender.isascii() and recipient.isascii())
    return Letter(sender, recipient, message.as_bytes(policy=SMTPUTF8 if is_utf8 else SMTP), is_utf8)


def deliver(url: str, letter: Letter) -> None:
    """Hand the letter to the mail server. Raises NotSent when the server has certainly not taken it.

    After any other error nobody knows whether the letter was sent.
    """
    with _session(url) as session:
        try:
            if letter.is_utf8 and not session.has_extn("smtputf8"):
                raise NotSent("smtputf8_not_supported", is_final=True)
            _accepted(session.mail(letter.sender, ["SMTPUTF8"] if letter.is_utf8 else []), "sender_refused")
            _accepted(session.rcpt(letter.recipient), "recipient_refused")
        except UnicodeError as error:  # an address that this server cannot be told
            raise NotSent("recipient_refused", is_final=True) from error
        except (OSError, smtplib.SMTPException) as error:
            raise NotSent("smtp_unavailable", is_final=False) from error
        try:
            _accepted(session.data(letter.content), "message_refused")
        except smtplib.SMTPDataError as error:
            _accepted((error.smtp_code, b""), "message_refused")
            raise


@contextmanager
def _session(url: str) -> Iterator[smtplib.SMTP]:
    """A session that is ready for a message. Raises NotSent when the mail server cannot be reached."""
    parts = urlsplit(url)
    host, is_wrapped = parts.hostname or "localhost", parts.scheme == "smtps"
    try:
        session: smtplib.SMTP = (
            smtplib.SMTP_SSL(host, parts.port or 465, timeout=TIMEOUT_S, context=ssl.create_default_context())
            if is_wrapped
            else smtplib.SMTP(host, parts.port or 25, timeout=TIMEOUT_S)
        )
    except (OSError, smtplib.SMTPException) as error:
        raise NotSent("smtp_unavailable", is_final=False) from error
    try:
        try:
            session.ehlo_or_helo_if_needed()
            if not is_wrapped and session.has_extn("starttls"):
                session.starttls(context=ssl.create_default_context())
                session.ehlo()
            if parts.username:
                session.login(unquote(parts.username), unquote(parts.password or ""))
        except (OSError, smtplib.SMTPException) as error:
            raise NotSent("smtp_unavailable", is_final=False) from error
        yield session
    finally:
        with suppress(OSError, smtplib.SMTPException):
            session.quit()
        session.close()


def _accepted(reply: tuple[int, bytes], code: str) -> None:
    """Raises NotSent for a reply that refuses: for now (4xx) or for good (5xx)."""
    status = reply[0]
    if status >= 400:
        raise NotSent(code, is_final=status >= 500)
