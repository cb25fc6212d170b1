"""A mail server that keeps what it gets."""

import email
import email.policy
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from tests.support.running import free_port


class Listening:
    """Handler of a mail server that keeps logins, senders, recipients and messages, and gives set answers."""

    def __init__(self) -> None:
        self.logins: list[str] = []
        self.senders: list[str] = []
        self.recipients: list[str] = []
        self.letters: list[bytes] = []
        self.rcpt_answer = self.data_answer = "250 OK"

    @property
    def messages(self) -> list[Any]:
        return [email.message_from_bytes(letter, policy=email.policy.default) for letter in self.letters]

    async def handle_MAIL(  # noqa: N802 - the library's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        self.senders.append(address)
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.rcpt_answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return self.rcpt_answer

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.data_answer.startswith("250"):
            assert isinstance(envelope.content, bytes)
            self.letters.append(envelope.content)
            self.recipients += envelope.rcpt_tos
        return self.data_answer

    def authenticator(
        self, server: SMTP, session: Session, envelope: Envelope, method: str, credentials: Any
    ) -> AuthResult:
        self.logins.append(credentials.login.decode())
        return AuthResult(success=True)


@contextmanager
def listening(
    certificate: Path | None, *, is_wrapped: bool = False, is_international: bool = True
) -> Iterator[tuple[Listening, int]]:
    """A mail server with STARTTLS, with TLS from the start, or without TLS. `is_international`: it offers SMTPUTF8."""
    handler, context = Listening(), None
    if certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    wrapping: dict[str, Any] = {"ssl_context": context} if is_wrapped else {"tls_context": context}
    controller = Controller(
        handler, hostname="127.0.0.1", port=free_port(), authenticator=handler.authenticator, auth_require_tls=False,
        enable_SMTPUTF8=is_international, **wrapping,
    )  # fmt: skip
    controller.start()
    try:
        yield handler, controller.port
    finally:
        controller.stop()
