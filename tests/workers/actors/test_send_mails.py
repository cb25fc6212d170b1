"""One message per created account, to a real SMTP server, and never a second."""

import email
import email.policy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from embedded.postgres import PostgresUrls
from eventstore.aggregates import customer_mail
from eventstore.aggregates.customer_mail import (
    MailDelivered,
    MailFailed,
    MailPostponed,
    MailRequested,
    StartMail,
)
from eventstore.aggregates.import_process import identity_of
from eventstore.aggregates.supplier import ConfigureSupplier, CreateSupplier
from eventstore.aggregates.supplier import stream_of as supplier_stream
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from telemetry.supervision import supervision
from tests.support.make import NOON, an_account, changed
from tests.support.running import free_port, wait_for
from tests.support.staging import SUPPLIER, stage
from workers.actors import send_mails
from workers.actors.mail_server import MailServer
from workers.actors.process_imports import ImportProcessor
from workers.actors.send_mails import LEASE, MAX_ATTEMPTS, MailSender
from workers.run import run_worker

SENDER = "Kundenservice <service@example.com>"


class Inbox:
    """What a mail server has taken, and what it is told to answer."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.recipients: list[str] = []
        self.rcpt_answer = "250 OK"
        self.data_answer = "250 OK"

    async def handle_RCPT(  # noqa: N802 - the library's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.rcpt_answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return self.rcpt_answer

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.data_answer.startswith("250"):
            assert isinstance(envelope.content, bytes)
            self.messages.append(email.message_from_bytes(envelope.content, policy=email.policy.default))
            self.recipients += envelope.rcpt_tos
        return self.data_answer


@pytest.fixture
def inbox() -> Iterator[tuple[Inbox, MailServer]]:
    with an_inbox(is_international=True) as found:
        yield found


@pytest.fixture
def plain_inbox() -> Iterator[tuple[Inbox, MailServer]]:
    """That of a server without SMTPUTF8."""
    with an_inbox(is_international=False) as found:
        yield found


@contextmanager
def an_inbox(*, is_international: bool, sender: str = SENDER) -> Iterator[tuple[Inbox, MailServer]]:
    handler = Inbox()
    controller = Controller(handler, hostname="127.0.0.1", port=free_port(), enable_SMTPUTF8=is_international)
    controller.start()
    yield handler, MailServer(f"smtp://127.0.0.1:{controller.port}", sender, is_plain=True)
    controller.stop()


@pytest.fixture
def supplier(ledger: Ledger) -> str:
    """A supplier that sends e-mails."""
    stream = supplier_stream(SUPPLIER)
    ledger.execute(stream, CreateSupplier(), at=now(), by="t")
    ledger.execute(stream, ConfigureSupplier(sends_customer_emails=True), at=now(), by="t")
    return stream


def processed(ledger: Ledger, account: Any, **fields: Any) -> str:
    """Process an account; the stream of its e-mail."""
    stream = stage(ledger, account, **fields)
    ImportProcessor(ledger, worker=lambda: 7).process([stream])
    return customer_mail.stream_of(*identity_of(stream))


def last(ledger: Ledger, stream: str) -> Any:
    return ledger.history(stream)[-1].event


@pytest.mark.promise("customer-e-mails-off")
def test_the_customer_is_told_once(ledger: Ledger, supplier: str, inbox: tuple[Inbox, MailServer]) -> None:
    account = an_account(SUPPLIER)
    stream = processed(ledger, account)
    requested = last(ledger, stream)
    assert isinstance(requested, MailRequested)
    box, server = inbox
    sender = MailSender(ledger, server, worker=lambda: 7)
    for _ in range(3):
        sender.send([stream])
    [message] = box.messages
    assert isinstance(last(ledger, stream), MailDelivered)
    assert box.recipients == [account["customers"][0]["email"]]
    assert message["Subject"] == "Ihr Energiekonto ist umgezogen"
    assert message["From"] == SENDER
    text = message.get_content()
    assert requested.account_number in text
    assert account["external_account_number"] in text
    assert account["customers"][0]["family_name"] in text


REFUSING = """
CREATE FUNCTION refusing() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.stream = '{stream}' THEN RAISE EXCEPTION 'no' USING ERRCODE = 'check_violation'; END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER refusing BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION refusing();
"""


def test_an_e_mail_that_fails_unexpectedly_leaves_the_others(
    ledger: Ledger, supplier: str, inbox: tuple[Inbox, MailServer], database: PostgresUrls
) -> None:
    """The sweeper rings for all of them again, in the same order: the first would keep them back for good."""
    first, second = (processed(ledger, an_account(SUPPLIER, number)) for number in (1, 2))
    with psycopg.connect(database.admin, autocommit=True) as admin:
        admin.execute(REFUSING.format(stream=first).encode())
    _, server = inbox
    MailSender(ledger, server, worker=lambda: 7).send([first, second])
    assert isinstance(last(ledger, second), MailDelivered)
    assert [one.name for one in supervision.troubles()] == ["e-mails"]


def test_the_language_is_the_suppliers(ledger: Ledger, supplier: str, inbox: tuple[Inbox, MailServer]) -> None:
    ledger.execute(supplier, ConfigureSupplier(email_language="en"), at=now(), by="t")
    box, server = inbox
    MailSender(ledger, server, worker=lambda: 7).send([processed(ledger, an_account(SUPPLIER))])
    assert box.messages[0]["Subject"] == "Your energy account has moved"


@pytest.mark.promise("customer-e-mails-off")
@pytest.mark.parametrize("settings", [{"sends_customer_emails": False}, {}])
def test_nobody_is_told_where_that_is_off_or_of_a_dry_run(
    ledger: Ledger, supplier: str, settings: dict[str, Any]
) -> None:
    ledger.execute(supplier, ConfigureSupplier(**settings), at=now(), by="t")
    assert ledger.history(processed(ledger, an_account(SUPPLIER), is_dry_run=not settings)) == []


def test_a_server_that_refuses_for_now_is_asked_again(
    ledger: Ledger, supplier: str, inbox: tuple[Inbox, MailServer]
) -> None:
    box, server = inbox
    box.rcpt_answer = "450 later"
    stream = processed(ledger, an_account(SUPPLIER))
    MailSender(ledger, server, worker=lambda: 7).send([stream])
    postponed = last(ledger, stream)
    assert isinstance(postponed, MailPostponed)
    assert postponed.code == "recipient_refused"
    box.rcpt_answer = "250 OK"
    sender = MailSender(ledger, server, worker=lambda: 7)

    def is_sent() -> bool:
        sender.send([stream])
        return bool(box.messages)

    wait_for(is_sent, "the message is due and sent")
    assert isinstance(last(ledger, stream), MailDelivered)


def test_a_server_that_is_away_is_asked_again(ledger: Ledger, supplier: str) -> None:
    stream = processed(ledger, an_account(SUPPLIER))
    MailSender(ledger, MailServer(f"smtp://127.0.0.1:{free_port()}", SENDER), worker=lambda: 7).send([stream])
    postponed = last(ledger, stream)
    assert isinstance(postponed, MailPostponed)
    assert postponed.code == "smtp_unavailable"


@pytest.mark.parametrize(
    ("rcpt", "data", "code"),
    [("550 unknown", "250 OK", "recipient_refused"), ("250 OK", "554 spam", "message_refused")],
)
def test_a_server_that_refuses_for_good_is_believed(
    ledger: Ledger, supplier: str, inbox: tuple[Inbox, MailServer], rcpt: str, data: str, code: str
) -> None:
    box, server = inbox
    box.rcpt_answer, box.data_answer = rcpt, data
    stream = processed(ledger, an_account(SUPPLIER))
    MailSender(ledger, server, worker=lambda: 7).send([stream])
    assert last(ledger, stream) == MailFailed(attempt=1, code=code)


def sent_to(ledger: Ledger, server: MailServer, address: str) -> Any:
    """What became of a message to a customer with this address."""
    account = changed(an_account(SUPPLIER), address, "customers", 0, "email")
    account["customers"] = account["customers"][:1]
    stream = processed(ledger, account)
    MailSender(ledger, server, worker=lambda: 7).send([stream])
    return last(ledger, stream)


@pytest.mark.promise("e-mails-internationalised-domain")
@pytest.mark.parametrize("server_kind", ["inbox", "plain_inbox"])
@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("anna@bücher.de", "anna@xn--bcher-kva.de"),
        ("anna@straße.de", "anna@xn--strae-oqa.de"),
        ("anna@GRÜN.de", "anna@xn--grn-ioa.de"),
    ],
)
def test_a_domain_with_umlauts_is_told_in_its_ascii_form(
    ledger: Ledger, supplier: str, request: pytest.FixtureRequest, server_kind: str, address: str, told: str
) -> None:
    box, server = request.getfixturevalue(server_kind)
    assert isinstance(sent_to(ledger, server, address), MailDelivered)
    assert box.recipients == [told]
    assert box.messages[0]["To"].addresses[0].addr_spec == told


@pytest.mark.promise("e-mails-internationalised-domain")
def test_a_name_with_umlauts_is_told_as_it_is(ledger: Ledger, supplier: str, inbox: tuple[Inbox, MailServer]) -> None:
    box, server = inbox
    assert isinstance(sent_to(ledger, server, "jürgen@müller.de"), MailDelivered)
    assert box.recipients == ["jürgen@xn--mller-kva.de"]
    header = str(box.messages[0]["To"]).encode("utf-8", "surrogateescape").decode()  # it comes as raw UTF-8
    assert "jürgen@xn--mller-kva.de" in header
    assert "Kontonummer" in box.messages[0].get_content()


@pytest.mark.promise("e-mails-internationalised-domain")
def test_a_name_with_umlauts_fails_for_good_where_the_server_cannot_be_told(
    ledger: Ledger, supplier: str, plain_inbox: tuple[Inbox, MailServer]
) -> None:
    box, server = plain_inbox
    assert sent_to(ledger, server, "jürgen@example.com") == MailFailed(attempt=1, code="smtputf8_not_supported")
    assert box.messages == []


def test_a_sender_with_umlauts_in_its_domain_can_send(ledger: Ledger, supplier: str) -> None:
    with an_inbox(is_international=False, sender="Grün Strom <service@grün.de>") as (box, server):
        assert isinstance(sent_to(ledger, server, "anna@example.com"), MailDelivered)
    [message] = box.messages
    assert message["From"].addresses[0].addr_spec == "service@xn--grn-ioa.de"
    assert message["Message-ID"].endswith("@xn--grn-ioa.de>")


def test_an_attempt_ends_whatever_goes_wrong(
    ledger: Ledger, supplier: str, inbox: tuple[Inbox, MailServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a bug")

    for place, code in (("letter_of", "message_not_possible"), ("deliver", "outcome_unknown")):
        with monkeypatch.context() as patch:
            patch.setattr(send_mails, place, fail)
            stream = processed(ledger, an_account(SUPPLIER, len(code)))
            MailSender(ledger, inbox[1], worker=lambda: 7).send([stream])
        assert last(ledger, stream) == MailFailed(attempt=1, code=code)


def test_an_account_without_an_address_gets_no_message(
    ledger: Ledger, supplier: str, inbox: tuple[Inbox, MailServer]
) -> None:
    account = changed(an_account(SUPPLIER), "", "customers", 0, "email")
    account["customers"] = account["customers"][:1]
    stream = processed(ledger, account)
    MailSender(ledger, inbox[1], worker=lambda: 7).send([stream])
    assert last(ledger, stream) == MailFailed(attempt=1, code="no_email_address")


def test_a_message_whose_outcome_nobody_knows_is_not_sent_again(
    ledger: Ledger, supplier: str, inbox: tuple[Inbox, MailServer]
) -> None:
    box, server = inbox
    stream = processed(ledger, an_account(SUPPLIER))
    start = StartMail(worker=9, lease_until=NOON + LEASE, max_attempts=MAX_ATTEMPTS)
    ledger.execute(stream, start, at=now(), by="t")
    stop = threading.Event()
    worker = threading.Thread(target=run_worker, args=(ledger, None), kwargs={"stop": stop, "mail_server": server})
    worker.start()
    wait_for(lambda: isinstance(last(ledger, stream), MailFailed), "the sweeper gives it up")
    stop.set()
    worker.join()
    assert last(ledger, stream) == MailFailed(attempt=1, code="outcome_unknown")
    assert box.messages == []


def test_a_worker_sends_what_is_requested(ledger: Ledger, supplier: str, inbox: tuple[Inbox, MailServer]) -> None:
    box, server = inbox
    streams = [stage(ledger, an_account(SUPPLIER, number)) for number in (1, 2, 3)]
    stop = threading.Event()
    worker = threading.Thread(target=run_worker, args=(ledger, None), kwargs={"stop": stop, "mail_server": server})
    worker.start()
    wait_for(lambda: len(box.messages) == len(streams), "every customer is told")
    stop.set()
    worker.join()
    assert len({message["Message-ID"] for message in box.messages}) == len(streams)
