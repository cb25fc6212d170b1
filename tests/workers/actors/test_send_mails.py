"""E-mails to customers through a real SMTP server: one for each created account."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from eventstore.aggregates import customer_mail
from eventstore.aggregates.customer_mail import MailDelivered, MailFailed, MailPostponed, MailRequested, StartMail
from eventstore.aggregates.import_process import identity_of
from eventstore.aggregates.supplier import ConfigureSupplier, CreateSupplier
from eventstore.aggregates.supplier import stream_of as supplier_stream
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from telemetry.supervision import supervision
from tests.support.databases import Admin
from tests.support.mail_server import Listening, listening
from tests.support.make import NOON, an_account, changed
from tests.support.running import free_port, wait_for
from tests.support.staging import SUPPLIER, stage
from tests.support.threads import working
from workers.actors import send_mails
from workers.actors.mail_server import MailServer
from workers.actors.process_imports import ImportProcessor
from workers.actors.send_mails import LEASE, MAX_ATTEMPTS, MailSender

SENDER = "Kundenservice <service@example.com>"


class Post:
    """A supplier that sends e-mails, and the mail server that it sends them through."""

    def __init__(self, ledger: Ledger, inbox: Listening, server: MailServer) -> None:
        self.ledger, self.inbox, self.server = ledger, inbox, server
        self.supplier = supplier_stream(SUPPLIER)
        ledger.execute(self.supplier, CreateSupplier(), at=now(), by="t")
        self.configure(sends_customer_emails=True)

    def configure(self, **settings: Any) -> None:
        self.ledger.execute(self.supplier, ConfigureSupplier(**settings), at=now(), by="t")

    def processed(self, account: Any, **fields: Any) -> str:
        """Process an account, and return the stream of its e-mail."""
        stream = stage(self.ledger, account, **fields)
        ImportProcessor(self.ledger, worker=lambda: 7).process([stream])
        return customer_mail.stream_of(*identity_of(stream))

    def sent(self, *streams: str) -> Any:
        """Send these e-mails, and return the last event of the last one."""
        MailSender(self.ledger, self.server, worker=lambda: 7).send([*streams])
        return self.last(streams[-1])

    def sent_to(self, address: str, number: int = 1) -> Any:
        """Send an e-mail to a customer with this address, and return its last event."""
        account = changed(an_account(SUPPLIER, number), address, "customers", 0, "email")
        account["customers"] = account["customers"][:1]
        return self.sent(self.processed(account))

    def last(self, stream: str) -> Any:
        return self.ledger.history(stream)[-1].event


@contextmanager
def a_post(ledger: Ledger, *, is_international: bool = True, sender: str = SENDER) -> Iterator[Post]:
    with listening(None, is_international=is_international) as (inbox, port):
        yield Post(ledger, inbox, MailServer(f"smtp://127.0.0.1:{port}", sender, is_plain=True))


@pytest.fixture
def post(ledger: Ledger) -> Iterator[Post]:
    with a_post(ledger) as post:
        yield post


@pytest.mark.promise("customer-e-mails-off")
def test_a_customer_gets_one_e_mail(post: Post) -> None:
    account = an_account(SUPPLIER)
    stream = post.processed(account)
    requested = post.last(stream)
    assert isinstance(requested, MailRequested)
    for _ in range(3):
        assert isinstance(post.sent(stream), MailDelivered)
    [message] = post.inbox.messages
    assert post.inbox.recipients == [account["customers"][0]["email"]]
    assert (message["Subject"], message["From"]) == ("Ihr Energiekonto ist umgezogen", SENDER)
    text = message.get_content()
    for part in (
        requested.account_number,
        account["external_account_number"],
        account["customers"][0]["family_name"],
    ):
        assert part in text


REFUSING = """
CREATE FUNCTION refusing() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.stream = '{stream}' THEN RAISE EXCEPTION 'no' USING ERRCODE = 'check_violation'; END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER refusing BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION refusing();
"""


def test_an_e_mail_that_fails_unexpectedly_leaves_the_others(post: Post, admin: Admin) -> None:
    """The sweeper rings for all of them again in the same order, so the first would always block the second."""
    first, second = (post.processed(an_account(SUPPLIER, number)) for number in (1, 2))
    admin.execute(REFUSING.format(stream=first).encode())
    assert isinstance(post.sent(first, second), MailDelivered)
    assert [trouble.name for trouble in supervision.troubles()] == ["e-mails"]


def test_the_language_is_the_suppliers(post: Post) -> None:
    post.configure(email_language="en")
    post.sent(post.processed(an_account(SUPPLIER)))
    assert post.inbox.messages[0]["Subject"] == "Your energy account has moved"


@pytest.mark.promise("customer-e-mails-off")
@pytest.mark.parametrize("settings", [{"sends_customer_emails": False}, {}])
def test_no_e_mail_is_requested_where_they_are_off_or_for_a_dry_run(post: Post, settings: dict[str, Any]) -> None:
    post.configure(**settings)
    assert post.ledger.history(post.processed(an_account(SUPPLIER), is_dry_run=not settings)) == []


@pytest.mark.parametrize(
    ("rcpt", "data", "ending"),
    [
        ("450 later", "250 OK", (MailPostponed, "recipient_refused")),
        ("250 OK", "450 later", (MailPostponed, "message_refused")),
        ("550 unknown", "250 OK", (MailFailed, "recipient_refused")),
        ("250 OK", "554 spam", (MailFailed, "message_refused")),
    ],
)
def test_a_server_that_refuses_for_now_is_asked_again(
    post: Post,
    rcpt: str,
    data: str,
    ending: tuple[type[MailPostponed | MailFailed], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workers.backoff.BACKOFF_S", 0.1)
    post.inbox.rcpt_answer, post.inbox.data_answer = rcpt, data
    stream = post.processed(an_account(SUPPLIER))
    event = post.sent(stream)
    assert (type(event), event.code) == ending
    post.inbox.rcpt_answer = post.inbox.data_answer = "250 OK"
    if isinstance(event, MailPostponed):
        wait_for(lambda: isinstance(post.sent(stream), MailDelivered), "the message is due and sent")


def test_a_server_that_does_not_answer_is_asked_again(post: Post) -> None:
    post.server = MailServer(f"smtp://127.0.0.1:{free_port()}", SENDER)
    event = post.sent(post.processed(an_account(SUPPLIER)))
    assert (type(event), event.code) == (MailPostponed, "smtp_unavailable")


@pytest.mark.promise("e-mails-internationalised-domain")
@pytest.mark.parametrize("is_international", [True, False])
def test_a_domain_with_umlauts_is_sent_in_its_ascii_form(ledger: Ledger, is_international: bool) -> None:
    recipients = {
        "anna@bücher.de": "anna@xn--bcher-kva.de",
        "anna@straße.de": "anna@xn--strae-oqa.de",
        "anna@GRÜN.de": "anna@xn--grn-ioa.de",
    }
    with a_post(ledger, is_international=is_international) as post:
        for number, address in enumerate(recipients, 1):
            assert isinstance(post.sent_to(address, number), MailDelivered)
    assert post.inbox.recipients == [*recipients.values()]
    assert [message["To"].addresses[0].addr_spec for message in post.inbox.messages] == [*recipients.values()]


@pytest.mark.promise("e-mails-internationalised-domain")
def test_a_name_with_umlauts_needs_a_server_with_smtputf8(post: Post) -> None:
    assert isinstance(post.sent_to("jürgen@müller.de"), MailDelivered)
    assert post.inbox.recipients == ["jürgen@xn--mller-kva.de"]
    header = str(post.inbox.messages[0]["To"]).encode("utf-8", "surrogateescape").decode()  # it arrives as raw UTF-8
    assert "jürgen@xn--mller-kva.de" in header
    assert "Kontonummer" in post.inbox.messages[0].get_content()


@pytest.mark.promise("e-mails-internationalised-domain")
def test_a_name_with_umlauts_fails_for_good_where_the_server_has_no_smtputf8(ledger: Ledger) -> None:
    with a_post(ledger, is_international=False) as post:
        assert post.sent_to("jürgen@example.com") == MailFailed(attempt=1, code="smtputf8_not_supported")
    assert post.inbox.messages == []


def test_a_sender_with_umlauts_in_its_domain_can_send(ledger: Ledger) -> None:
    with a_post(ledger, is_international=False, sender="Grün Strom <service@grün.de>") as post:
        assert isinstance(post.sent_to("anna@example.com"), MailDelivered)
    [message] = post.inbox.messages
    assert message["From"].addresses[0].addr_spec == "service@xn--grn-ioa.de"
    assert message["Message-ID"].endswith("@xn--grn-ioa.de>")


@pytest.mark.parametrize(("place", "code"), [("encoded_mail", "message_not_possible"), ("deliver", "outcome_unknown")])
def test_an_attempt_ends_whatever_goes_wrong(
    post: Post, monkeypatch: pytest.MonkeyPatch, place: str, code: str
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr(send_mails, place, fail)
    assert post.sent(post.processed(an_account(SUPPLIER))) == MailFailed(attempt=1, code=code)


def test_an_account_without_an_address_gets_no_message(post: Post) -> None:
    assert post.sent_to("") == MailFailed(attempt=1, code="no_email_address")


def test_a_message_whose_outcome_is_unknown_is_not_sent_again(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.followers.sweeper.INTERVAL_S", 0.1)
    stream = post.processed(an_account(SUPPLIER))
    start = StartMail(worker=9, lease_until=NOON + LEASE, max_attempts=MAX_ATTEMPTS)
    post.ledger.execute(stream, start, at=now(), by="t")
    with working(post.ledger, mail_server=post.server):
        wait_for(lambda: isinstance(post.last(stream), MailFailed), "the sweeper fails it")
    assert post.last(stream) == MailFailed(attempt=1, code="outcome_unknown")
    assert post.inbox.messages == []


def test_a_worker_sends_what_is_requested(post: Post) -> None:
    streams = [stage(post.ledger, an_account(SUPPLIER, number)) for number in (1, 2, 3)]
    with working(post.ledger, mail_server=post.server):
        wait_for(lambda: len(post.inbox.messages) == len(streams), "every customer has an e-mail")
    assert len({message["Message-ID"] for message in post.inbox.messages}) == len(streams)
