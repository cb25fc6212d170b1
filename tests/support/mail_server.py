"""A mail server that keeps what it gets."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from tests.support.running import free_port


class Listening:
    """Handler of a mail server that keeps logins, senders and messages."""

    def __init__(self) -> None:
        self.logins: list[str] = []
        self.senders: list[str] = []
        self.letters: list[bytes] = []

    async def handle_MAIL(  # noqa: N802 - the library's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        self.senders.append(address)
        envelope.mail_from = address
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        assert isinstance(envelope.content, bytes)
        self.letters.append(envelope.content)
        return "250 OK"

    def authenticator(
        self, server: SMTP, session: Session, envelope: Envelope, method: str, credentials: Any
    ) -> AuthResult:
        self.logins.append(credentials.login.decode())
        return AuthResult(success=True)


@contextmanager
def listening(certificate: Path | None, *, is_wrapped: bool = False) -> Iterator[tuple[Listening, int]]:
    """A mail server with STARTTLS, with TLS from the start, or without TLS."""
    handler, context = Listening(), None
    if certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    wrapping: dict[str, Any] = {"ssl_context": context} if is_wrapped else {"tls_context": context}
    controller = Controller(
        handler, hostname="127.0.0.1", port=free_port(), authenticator=handler.authenticator, auth_require_tls=False,
        **wrapping,
    )  # fmt: skip
    controller.start()
    try:
        yield handler, controller.port
    finally:
        controller.stop()
