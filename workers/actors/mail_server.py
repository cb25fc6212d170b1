"""Address of the mail server, and encrypted sessions with it.

E-mails contain names of customers, and logins contain passwords, so both are sent only over TLS. The settings can allow
a session without TLS with a server on the same machine.
"""

import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import unquote, urlsplit

import msgspec

from schemas.sentence import Sentence

SUBMISSION, WRAPPED, RELAY = 587, 465, 25
"""Default ports of `smtp://` with a user, of `smtps://`, and of `smtp://` without a user."""
TIMEOUT_S = 15.0


class MailServer(msgspec.Struct, frozen=True):
    """URL `smtp://[user:password@]host[:port]` or `smtps://…`, and sender. `is_plain`: TLS is not required."""

    url: str
    sender: str
    is_plain: bool = False

    @property
    def is_wrapped(self) -> bool:
        """Return True if TLS begins before SMTP does (`smtps://`)."""
        return urlsplit(self.url).scheme == "smtps"

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        default = WRAPPED if self.is_wrapped else SUBMISSION if parts.username else RELAY
        return parts.hostname or "localhost", parts.port or default


class NotSecure(Exception):
    """The mail server offers no TLS that can be trusted. The message is the reason."""

    def __init__(self, reason: Sentence) -> None:
        super().__init__(reason)
        self.reason = reason


@contextmanager
def mail_session(server: MailServer, *, timeout_s: float = TIMEOUT_S, logs_in: bool = True) -> Iterator[smtplib.SMTP]:
    """Open a session that is ready for a message.

    Raises NotSecure before any login or message is sent, and OSError or SMTPException if the server does not answer or
    refuses.
    """
    try:
        session = _connected(server, timeout_s)
    except ssl.SSLError as error:
        raise NotSecure(_reason(error)) from error
    try:
        session.ehlo_or_helo_if_needed()
        if not (server.is_wrapped or server.is_plain):
            _start_tls(session)
        parts = urlsplit(server.url)
        if logs_in and parts.username:
            session.login(unquote(parts.username), unquote(parts.password or ""))
        yield session
    finally:
        with suppress(OSError, smtplib.SMTPException):
            session.quit()
        session.close()


def why_not_secure(server: MailServer) -> str | None:
    """Return the reason why no e-mail may be sent to this server; None if the server offers TLS or does not answer."""
    try:
        with mail_session(server, logs_in=False):
            return None
    except NotSecure as error:
        return str(error)
    except (OSError, smtplib.SMTPException):
        return None


def _connected(server: MailServer, timeout_s: float) -> smtplib.SMTP:
    host, port = server.address
    if server.is_wrapped:
        return smtplib.SMTP_SSL(host, port, timeout=timeout_s, context=ssl.create_default_context())
    return smtplib.SMTP(host, port, timeout=timeout_s)


def _start_tls(session: smtplib.SMTP) -> None:
    if not session.has_extn("starttls"):
        raise NotSecure(Sentence("it does not offer STARTTLS", "er bietet kein STARTTLS an"))
    try:
        session.starttls(context=ssl.create_default_context())
    except ssl.SSLError as error:
        raise NotSecure(_reason(error)) from error
    except smtplib.SMTPResponseException as error:
        raise NotSecure(Sentence("it refuses STARTTLS", "er lehnt STARTTLS ab")) from error
    session.ehlo()


def _reason(error: ssl.SSLError) -> Sentence:
    reason = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else error.reason
    if not reason:
        return Sentence("it does not speak TLS", "er spricht kein TLS")
    return Sentence(
        "its TLS certificate cannot be trusted ({reason})",
        "seinem TLS-Zertifikat ist nicht zu trauen ({reason})",
        reason=reason,
    )
