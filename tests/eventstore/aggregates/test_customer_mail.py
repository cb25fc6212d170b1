"""A message is sent once at most."""

from typing import Any

import pytest

from eventstore.aggregates.customer_mail import (
    CUSTOMER_MAIL,
    DeliverMail,
    FailMail,
    MailDelivered,
    MailFailed,
    MailPostponed,
    MailRequested,
    MailStarted,
    PostponeMail,
    RequestMail,
    StartMail,
)
from eventstore.errors import IllegalTransition
from tests.support.make import DIGEST, LEASE_UNTIL, NOON, Given

REQUESTED = MailRequested(account_number="A-1", payload_sha256=DIGEST, language="de")
REQUEST = RequestMail(account_number="A-1", payload_sha256=DIGEST, language="de")


def given(*events: Any) -> Given:
    return Given(CUSTOMER_MAIL, events)


def started(attempt: int = 1) -> MailStarted:
    return MailStarted(attempt=attempt, worker=7, lease_until=LEASE_UNTIL)


def start(max_attempts: int = 3) -> StartMail:
    return StartMail(worker=7, lease_until=LEASE_UNTIL, max_attempts=max_attempts)


DELIVERED = MailDelivered(attempt=1, message_id="<m>")
POSTPONED = MailPostponed(attempt=1, code="smtp_unavailable", due_at=NOON)


def test_a_message_is_requested_once() -> None:
    given().when(REQUEST).then(REQUESTED)
    given(REQUESTED, started(), DELIVERED).when(REQUEST).then()


def test_a_message_that_is_being_sent_is_taken_up_by_nobody_else() -> None:
    given(REQUESTED).when(start()).then(started())
    given(REQUESTED, started()).when(start()).then()
    given(REQUESTED, started(), DELIVERED).when(start()).then()


def test_a_postponed_message_is_tried_again_when_it_is_due() -> None:
    given(REQUESTED, started(), POSTPONED).when(start()).then(started(2))
    later = MailPostponed(attempt=1, code="smtp_unavailable", due_at=LEASE_UNTIL)
    given(REQUESTED, started(), later).when(start()).then()


def test_a_message_fails_when_its_attempts_are_used_up() -> None:
    given(REQUESTED, started(), POSTPONED).when(start(1)).then(MailFailed(attempt=1, code="attempts_exhausted"))


@pytest.mark.promise("e-mails-tasks-owner")
def test_only_the_present_attempt_has_an_outcome() -> None:
    for stale in (
        DeliverMail(attempt=1, message_id="<m>"),
        FailMail(attempt=1, code="outcome_unknown"),
        PostponeMail(attempt=1, code="smtp_unavailable", due_at=NOON),
    ):
        given(REQUESTED, started(), POSTPONED, started(2)).when(stale).refuses(IllegalTransition)
        given(REQUESTED).when(stale).refuses(IllegalTransition)
    given(REQUESTED, started()).when(DeliverMail(attempt=1, message_id="<m>")).then(DELIVERED)
    given(REQUESTED, started()).when(FailMail(attempt=1, code="x")).then(MailFailed(attempt=1, code="x"))
