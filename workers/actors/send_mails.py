"""The actor that sends e-mails to customers: at most once, after the account is committed. Each outcome is an event.

Each attempt is appended to the log before the mail server is called. After a failure before the last byte of the
message, the message was certainly not sent, and another attempt is made. If the answer to the last byte is missing, the
outcome is unknown, and the message is not sent again.
"""

import contextlib
import hashlib
import smtplib
import time
from collections.abc import Callable
from datetime import timedelta
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from email.utils import parseaddr

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
from eventstore.log.payloads import archive_url
from schemas.reading.shape import NotJson
from schemas.submission import stored_submission
from telemetry.supervision import supervision
from workers.actors.mail_server import MailServer, NotSecure, mail_session, why_not_secure
from workers.actors.mail_text import message_about, recipient_of, wire_address
from workers.backoff import backoff

MAX_ATTEMPTS = 8
LEASE = timedelta(seconds=120)
MAX_LINE = 998
"""Longest header line (RFC 5322) [characters]."""
CHECK_AGAIN_S = 30.0
"""Interval between two checks of the mail server's TLS [seconds]."""

logger = structlog.get_logger()


class NotSent(Exception):
    """The message was certainly not sent. `is_final`: another attempt would fail, too."""

    def __init__(self, code: str, *, is_final: bool) -> None:
        super().__init__(code)
        self.code = code
        self.is_final = is_final


class MailSender:
    """Sends requested messages. `worker` returns the number whose advisory lock this process holds."""

    def __init__(self, ledger: Ledger, server: MailServer | None, *, worker: Callable[[], int]) -> None:
        self._ledger = ledger
        self._server = server
        self._worker = worker
        self._checked_at = float("-inf")
        self._not_secure: str | None = None

    def send(self, streams: list[str]) -> None:
        """Send the requested messages of the streams, unless another worker has started them.

        Without a mail server that offers TLS, messages wait and no attempt is counted.
        """
        if self._server is None or self._waits_for_tls(self._server):
            return
        failures: list[Exception] = []
        for stream in streams:
            try:
                self._send(self._server, stream)
            except StoreUnavailable as error:
                logger.warning("mails will be retried by the sweeper", reason=str(error))
                return
            except Exception as error:  # other e-mails are still sent
                failures.append(error)
        for failure in failures:
            supervision.failed("e-mails", failure)
        if not failures:
            supervision.works("e-mails")

    def _waits_for_tls(self, server: MailServer) -> bool:
        if time.monotonic() - self._checked_at >= CHECK_AGAIN_S:
            self._not_secure = why_not_secure(server)
            self._checked_at = time.monotonic()
        if self._not_secure is not None:
            host, port = server.address
            logger.error("mails wait for a mail server with TLS", server=f"{host}:{port}", reason=self._not_secure)
        return self._not_secure is not None

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
        """Send the message, and return the command that records the outcome of the attempt."""
        attempt = mail.attempt
        try:
            message = self._message(server, stream, mail)
            if isinstance(message, str):
                return FailMail(attempt=attempt, code=message)
            encoded = encoded_mail(message)
        except StoreUnavailable:
            raise
        except Exception as error:
            logger.warning("mail cannot be written", stream=stream, reason=type(error).__name__)
            return FailMail(attempt=attempt, code="message_not_possible")
        try:
            deliver(server, encoded)
        except NotSent as failure:
            logger.info("mail not sent", stream=stream, code=failure.code, attempt=attempt)
            if failure.is_final:
                return FailMail(attempt=attempt, code=failure.code)
            return PostponeMail(
                attempt=attempt, code=failure.code, due_at=self._ledger.time() + backoff(attempt - mail.earlier)
            )
        except Exception as error:
            logger.warning("mail outcome unknown", stream=stream, reason=type(error).__name__)
            return FailMail(attempt=attempt, code="outcome_unknown")
        return DeliverMail(attempt=attempt, message_id=str(message["Message-ID"]))

    def _message(self, server: MailServer, stream: str, mail: CustomerMail) -> EmailMessage | str:
        """Build the message, or return an error code if it cannot be built."""
        assert mail.requested is not None
        number = mail.requested.account_number
        source = import_process.stream_of(*import_process.identity_of(stream))
        body = self._ledger.payloads({source: mail.requested.payload_sha256}).get(source)
        if body is None:
            with self._ledger.connection() as connection:
                archived_at = archive_url(connection, import_process.identity_of(stream)[0], source)
            return "payload_archived" if archived_at is not None else "payload_erased"
        try:
            account = stored_submission(body).account
        except NotJson:
            return "payload_unreadable"
        recipient = recipient_of(account)
        if recipient is None:
            return "no_email_address"
        host = wire_address(*parseaddr(server.sender)).domain or "localhost"
        return message_about(
            account,
            recipient,
            account_number=number,
            language=mail.requested.language,
            sender=server.sender,
            message_id=f"<{hashlib.sha256(f'{stream}/{number}'.encode()).hexdigest()[:32]}@{host}>",
        )


class EncodedMail(msgspec.Struct, frozen=True):
    """Message in bytes, with its addresses. `is_utf8`: an address needs SMTPUTF8 (RFC 6531)."""

    sender: str
    recipient: str
    content: bytes
    is_utf8: bool


def encoded_mail(message: EmailMessage) -> EncodedMail:
    """Encode the message. Raises ValueError if it cannot be encoded."""
    sender, recipient = (message[name].addresses[0].addr_spec for name in ("From", "To"))
    is_utf8 = not (sender.isascii() and recipient.isascii())
    policy = (SMTPUTF8 if is_utf8 else SMTP).clone(max_line_length=MAX_LINE)
    return EncodedMail(sender, recipient, message.as_bytes(policy=policy), is_utf8)


def deliver(server: MailServer, encoded: EncodedMail) -> None:
    """Send the message to the mail server. Raises NotSent if the server has certainly not accepted it.

    After any other error, the message may have been sent.
    """
    with contextlib.ExitStack() as stack:
        try:
            session = stack.enter_context(mail_session(server))
            if encoded.is_utf8 and not session.has_extn("smtputf8"):
                raise NotSent("smtputf8_not_supported", is_final=True)
            _require_accepted(session.mail(encoded.sender, ["SMTPUTF8"] if encoded.is_utf8 else []), "sender_refused")
            _require_accepted(session.rcpt(encoded.recipient), "recipient_refused")
        except UnicodeError as error:  # an address that this server cannot read
            raise NotSent("recipient_refused", is_final=True) from error
        except NotSecure as error:
            raise NotSent("tls_not_offered", is_final=False) from error
        except (OSError, smtplib.SMTPException) as error:
            raise NotSent("smtp_unavailable", is_final=False) from error
        try:
            _require_accepted(session.data(encoded.content), "message_refused")
        except smtplib.SMTPDataError as error:
            _require_accepted((error.smtp_code, b""), "message_refused")
            raise


def _require_accepted(reply: tuple[int, bytes], code: str) -> None:
    """Raise NotSent for a reply that refuses temporarily (4xx) or permanently (5xx)."""
    status = reply[0]
    if status >= 400:
        raise NotSent(code, is_final=status >= 500)
