"""Stored bodies above the present limits of requests can still be read."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import force_setattr

from eventstore.aggregates.import_process import IMPORT_PROCESS
from eventstore.aggregates.post_account import RecordImported
from eventstore.events import Recorded
from market.submission_check import Terms
from projections.platform.change import platform_change
from schemas.account import Account
from schemas.energy_amount import EnergyAmountImport
from schemas.reading.as_sent import canonical_json
from schemas.reading.shape import Shape, untyped
from schemas.reading.work import REQUEST_BOUNDS, STORED_BOUNDS, Bounds, TooMuchWork
from schemas.submission import read_submission, stored_account, stored_submission
from tests.support.make import NOON, an_account, processed, staged
from tests.support.post_account import RECORDS
from workers.actors.stored_account import account_of

pytestmark = pytest.mark.slow

LIMIT = 80_000
"""Limit of a request in these tests. The real one is several times as large, and so is its reading time."""
TOO_MANY = {
    "values": list(range(LIMIT + 1)),
    "containers": [[]] * (LIMIT + 1),
    "decimals": [n + 0.5 for n in range(LIMIT + 1)],
}


@pytest.fixture(autouse=True)
def lower_limits() -> Iterator[None]:
    former = {name: getattr(REQUEST_BOUNDS, name) for name in TOO_MANY}
    for name in TOO_MANY:
        force_setattr(REQUEST_BOUNDS, name, LIMIT)
    yield
    for name, value in former.items():
        force_setattr(REQUEST_BOUNDS, name, value)


each = pytest.mark.parametrize("kind", TOO_MANY)


def large(kind: str) -> bytes:
    """An account above the limits of a request, with a decimal as a number, which takes the slow path."""
    account = an_account() | {"metadata": [{"key": "k", "value": TOO_MANY[kind]}]}
    account["transfer_balance"] = float(account["transfer_balance"])
    return json.dumps(account).encode()


@each
def test_a_request_of_so_much_is_refused(kind: str) -> None:
    with pytest.raises(TooMuchWork, match="at most"):
        read_submission(large(kind))
    with pytest.raises(TooMuchWork):
        untyped(large(kind))


@each
def test_the_same_from_the_log_is_read_by_workers_mails_rebuilds_and_replays(kind: str) -> None:
    body = large(kind)
    submission = stored_submission(body)
    assert submission.shape_errors == ()
    assert canonical_json(submission.account) == canonical_json(stored_account(body))
    process = IMPORT_PROCESS.evolve(IMPORT_PROCESS.initial, staged())
    account = account_of(body, process, Terms(), NOON)
    assert isinstance(account, Account)
    change = platform_change(_recorded(f"import/{account.import_supplier}/1", processed()), body)
    assert change is not None
    assert change.copied


def test_a_walk_over_what_is_stored_has_no_end_in_time() -> None:
    notes = [{"body": "x", "unknown": n} for n in range(2_000)]
    body = json.dumps(an_account() | {"notes": notes}).encode()
    with pytest.raises(TooMuchWork):
        read_submission(body, Bounds(walk_s=0))
    assert len(read_submission(body, STORED_BOUNDS).shape_errors) >= 1_000


def test_a_stored_record_of_so_much_is_made_anew() -> None:
    envelope = {"import_supplier": "S", "external_account_number": "1", "energy_amount": RECORDS["energy_amount"]}
    body = json.dumps(envelope | {"dropped": [1] * (2 * LIMIT)}).encode()
    problems = Shape(EnergyAmountImport).examine(body)[1]
    assert [(problem.attr, problem.code) for problem in problems] == [
        ("non_field_errors", "max_length"),
        ("dropped", "unknown_field"),
    ]
    event = RecordImported(
        account_number="A-1", payload_sha256="0" * 64, content_sha256="", cancellation_sha256="", imported_at=NOON
    )
    change = platform_change(_recorded("energy-amount/S/1/1", event), body)
    assert change is not None
    assert change.copied


def _recorded(stream: str, event: Any) -> Recorded:
    return Recorded(stream=stream, version=1, event=event, recorded_at=NOON, supplier="S", caused_by="t", position=1)
