"""Addresses of the mail server, and sessions without TLS, in which nothing is sent."""

import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
import structlog

from cli.checkup.service import why_no_mail_server
from cli.service.settings import SettingError, Settings
from eventstore.aggregates import customer_mail
from eventstore.aggregates.customer_mail import MailDelivered, MailRequested
from eventstore.aggregates.import_process import identity_of
from eventstore.aggregates.supplier import ConfigureSupplier, CreateSupplier, stream_of
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from tests.support.certificates import self_signed
from tests.support.mail_server import listening
from tests.support.make import an_account
from tests.support.staging import SUPPLIER, stage
from workers.actors.mail_server import MailServer, NotSecure, mail_session, why_not_secure
from workers.actors.process_imports import ImportProcessor
from workers.actors.send_mails import EncodedMail, MailSender, NotSent, deliver

SENDER = "service@example.com"
LETTER = EncodedMail(SENDER, "anna@example.com", b"Subject: x\r\n\r\nKonto\r\n", is_utf8=False)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("smtp://mail.example", ("mail.example", 25)),
        ("smtp://u:p@mail.example", ("mail.example", 587)),
        ("smtp://u:p@mail.example:25", ("mail.example", 25)),
        ("smtps://mail.example", ("mail.example", 465)),
        ("smtps://u@[::1]:1465", ("::1", 1465)),
    ],
)
def test_doctor_and_the_mail_worker_use_one_address(url: str, address: tuple[str, int]) -> None:
    assert MailServer(url, SENDER).address == address


@pytest.mark.asvs("V12.3.1")
@pytest.mark.parametrize("user", ["", "user:secret@"])
def test_nothing_is_sent_to_a_server_without_starttls(user: str) -> None:
    with listening(None) as (heard, port):
        server = MailServer(f"smtp://{user}127.0.0.1:{port}", SENDER)
        with pytest.raises(NotSent) as refused:
            deliver(server, LETTER)
        assert (refused.value.code, refused.value.is_final) == ("tls_not_offered", False)
        assert why_not_secure(server) == "it does not offer STARTTLS"
        assert why_no_mail_server(server) == f"127.0.0.1:{port}, it does not offer STARTTLS"
    assert (heard.logins, heard.senders, heard.letters) == ([], [], [])


@pytest.mark.asvs("V12.3.2")
@pytest.mark.api_top_10("API10")
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_nothing_is_sent_where_the_certificate_cannot_be_trusted(tmp_path: Path, *, is_wrapped: bool) -> None:
    with listening(self_signed(tmp_path, "127.0.0.1"), is_wrapped=is_wrapped) as (heard, port):
        server = MailServer(f"smtp{'s' * is_wrapped}://user:secret@127.0.0.1:{port}", SENDER)
        with pytest.raises(NotSent, match="tls_not_offered"):
            deliver(server, LETTER)
        assert "cannot be trusted" in str(why_not_secure(server))
    assert (heard.logins, heard.senders, heard.letters) == ([], [], [])


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_login_and_message_go_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_wrapped: bool) -> None:
    certificate = self_signed(tmp_path, "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with listening(certificate, is_wrapped=is_wrapped) as (heard, port):
        server = MailServer(f"smtp{'s' * is_wrapped}://user:secret@127.0.0.1:{port}", SENDER)
        with mail_session(server) as session:
            assert isinstance(session.sock, ssl.SSLSocket)
        deliver(server, LETTER)
        assert why_not_secure(server) is None
        assert why_no_mail_server(server) is None
    assert (heard.logins, heard.senders) == (["user", "user"], [SENDER])
    assert len(heard.letters) == 1


def test_a_server_on_this_machine_may_be_plain_where_the_settings_say_so() -> None:
    with listening(None) as (heard, port):
        deliver(MailServer(f"smtp://127.0.0.1:{port}", SENDER, is_plain=True), LETTER)
    assert len(heard.letters) == 1
    on = {"IMPORTLEDGER_SMTP_PLAINTEXT": "on", "IMPORTLEDGER_MAIL_FROM": SENDER}
    for host in ("localhost", "127.0.0.1:2525", "[::1]"):
        Settings.from_environment(on | {"IMPORTLEDGER_SMTP_URL": f"smtp://{host}"}).refuse_incomplete()
    for host in ("mail.example", "10.0.0.1", "localhost.example", "127.0.0.1.example"):
        with pytest.raises(SettingError, match="IMPORTLEDGER_SMTP_PLAINTEXT must not be on"):
            Settings.from_environment(on | {"IMPORTLEDGER_SMTP_URL": f"smtp://{host}"}).refuse_incomplete()


def test_a_server_that_breaks_off_starttls_gets_nothing() -> None:
    """As an attacker between would answer."""
    heard: list[bytes] = []

    def answer(listener: Any) -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rwb") as stream:
            stream.write(b"220 mail\r\n")
            stream.flush()
            while line := stream.readline():
                heard.append(line)
                first = line[:4].upper()
                reply = (
                    b"250-mail\r\n250 STARTTLS" if first == b"EHLO" else b"454 no" if first == b"STAR" else b"221 bye"
                )
                stream.write(reply + b"\r\n")
                stream.flush()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        server = MailServer(f"smtp://u:p@127.0.0.1:{listener.getsockname()[1]}", SENDER)
        with pytest.raises(NotSecure, match="refuses STARTTLS"), mail_session(server):
            pass
        thread.join(60)
    assert {line[:4].upper() for line in heard} <= {b"EHLO", b"STAR", b"QUIT"}


def test_messages_stay_queued_without_an_attempt_until_the_server_offers_tls(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.actors.send_mails.CHECK_AGAIN_S", 0.0)
    stream = requested(ledger)
    with listening(None) as (heard, port):
        sender = MailSender(ledger, MailServer(f"smtp://127.0.0.1:{port}", SENDER), worker=lambda: 7)
        with structlog.testing.capture_logs() as lines:
            for _ in range(20):
                sender.send([stream])
        assert heard.senders == []
    assert [type(recorded.event) for recorded in ledger.history(stream)] == [MailRequested]
    assert {(line["log_level"], line["reason"]) for line in lines} == {("error", "it does not offer STARTTLS")}
    certificate = self_signed(tmp_path, "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with listening(certificate) as (heard, port):
        MailSender(ledger, MailServer(f"smtp://127.0.0.1:{port}", SENDER), worker=lambda: 7).send([stream])
    assert len(heard.letters) == 1
    assert isinstance(ledger.history(stream)[-1].event, MailDelivered)


def requested(ledger: Ledger) -> str:
    """Request a message, and return its stream."""
    ledger.execute(stream_of(SUPPLIER), CreateSupplier(), at=now(), by="t")
    ledger.execute(stream_of(SUPPLIER), ConfigureSupplier(sends_customer_emails=True), at=now(), by="t")
    stream = stage(ledger, an_account(SUPPLIER))
    ImportProcessor(ledger, worker=lambda: 7).process([stream])
    return customer_mail.stream_of(*identity_of(stream))
