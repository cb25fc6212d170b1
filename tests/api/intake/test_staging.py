"""Digests of an accepted account."""

import hashlib

from api.intake.staging import staging_of
from eventstore.clock import now
from eventstore.log.payloads import Payload
from market.submission_check import Occasion, Terms, check_submission
from schemas.submission import sent_submission
from tests.support.make import an_account, encoded


def test_the_digest_of_the_content_does_not_depend_on_how_it_is_spelt() -> None:
    canonical = sent_submission(encoded(an_account())).canonical_json()
    bodies = canonical, b" " + canonical, canonical.replace(b",", b", ", 1), b'{"payload":%b}' % canonical
    staged = []
    for body in bodies:
        for with_digest in (False, True):
            judged = check_submission(sent_submission(body, with_digest=with_digest), Terms(), now(), Occasion.CREATE)
            staged.append(staging_of(judged, Payload.of(body)))
    assert {command.content_sha256 for command in staged} == {hashlib.sha256(canonical).hexdigest()}
    assert [command.payload_sha256 for command in staged] == [
        hashlib.sha256(body).hexdigest() for body in bodies for _ in range(2)
    ]
