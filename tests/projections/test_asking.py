"""Asking for a long job: refused where nobody would do it, taken up where it is, and told of while it goes on."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from psycopg import Connection

from embedded.postgres import PostgresUrls
from eventstore.log.long_jobs import MAX_ATTEMPTS, give_back_part, refuse_job, take_part
from eventstore.proof.hashed_range import Range
from projections.spreading import asking as spreading
from projections.spreading.asking import AskedJob, NotSpread, WantedJob, asking, end_asked, wait_for
from projections.spreading.pieces import HashPiece, JobPiece, edition
from schemas.job_progress import JobProgress
from tests.support.parts import alive, working

PIECES: list[tuple[JobPiece, int]] = [(HashPiece((Range(0, 2),)), 10), (HashPiece((Range(0, 2),)), 20)]


@pytest.fixture
def connection(database: PostgresUrls) -> Iterator[Connection[Any]]:
    with alive(database, 1) as opened:
        yield opened


def ask(connection: Connection[Any], pieces: Sequence[tuple[JobPiece, int]] = PIECES) -> Any:
    return asking(connection, "verify", {"a": 1}, lambda: WantedJob(7, pieces))


def unheard(told: JobProgress) -> None:
    """Nobody listens."""


def test_without_workers_it_is_said_what_to_type(database: PostgresUrls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spreading, "STARTING_S", 0.0)
    with alive(database) as connection, pytest.raises(NotSpread, match="`importledger worker`"), ask(connection):
        pass
    with (
        alive(database, 1, is_relayed=False) as connection,
        pytest.raises(NotSpread, match="`importledger relay`"),
        ask(connection),
    ):
        pass


def test_workers_that_are_starting_are_waited_for(database: PostgresUrls, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([(0, 0), (1, 0), (1, 1)])
    monkeypatch.setattr(spreading, "workers_and_relays", lambda connection: next(looks))
    monkeypatch.setattr(spreading, "LOOK_EVERY_S", 0.01)
    with alive(database, is_relayed=False) as connection, ask(connection) as asked:
        assert not asked.is_taken_up


def test_who_asks_again_takes_the_job_up_where_it_is(connection: Connection[Any]) -> None:
    with ask(connection) as first:
        assert not first.is_taken_up
    with ask(connection, [(HashPiece((Range(5, 6),)), 1)]) as again:
        assert again.is_taken_up
        assert (again.job, again.pieces) == (first.job, first.pieces)
        end_asked(connection, again)
    with ask(connection) as new:
        assert new.job.job != first.job.job


def test_a_job_of_another_edition_or_that_is_of_no_use_is_not_taken_up(
    connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ask(connection) as first:
        pass
    with asking(connection, "verify", {"a": 1}, lambda: WantedJob(7, PIECES), is_usable=lambda _: False) as second:
        assert second.job.job != first.job.job
    monkeypatch.setattr(spreading, "edition", lambda: "newer")
    with ask(connection) as third:
        assert third.job.job != second.job.job


def test_only_one_command_waits_for_a_job(connection: Connection[Any], database: PostgresUrls) -> None:
    with (
        ask(connection),
        alive(database, 2, is_relayed=False) as other,
        pytest.raises(NotSpread, match="Another command"),
        ask(other),
    ):
        pass


def test_it_is_told_how_far_a_job_is_and_how_long_the_rest_takes(
    database: PostgresUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spreading, "LOOK_EVERY_S", 0.01)
    told: list[JobProgress] = []
    with working(database, 1), alive(database, is_relayed=False) as connection, ask(connection) as asked:
        assert wait_for(connection, asked, told.append) != []
    assert (told[-1].parts_done, told[-1].events_done, told[-1].eta_s, told[-1].why) == (2, 30, 0.0, "")
    assert [one.events_done for one in told] == sorted(one.events_done for one in told)
    assert told[0].parts == 2


def test_a_part_that_was_given_up_is_named(connection: Connection[Any]) -> None:
    with ask(connection) as asked:
        for _ in range(MAX_ATTEMPTS):
            part = take_part(connection, asked.job.job, 2, 1)
            assert part is not None
            give_back_part(connection, part, 1, error="the disk is full")
        with pytest.raises(NotSpread, match=r"Part 2 of 2 \(positions 1 to 2\) .* the disk is full"):
            wait_for(connection, asked, unheard)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spreading, "QUIET_S", 0.05)
    monkeypatch.setattr(spreading, "LOOK_EVERY_S", 0.02)


@pytest.mark.usefixtures("impatient")
def test_workers_of_another_edition_are_named(connection: Connection[Any]) -> None:
    with ask(connection) as asked:
        refuse_job(connection, asked.job.job, "0.0.9 (former)")
        with pytest.raises(NotSpread) as refused:
            wait_for(connection, asked, unheard)
    assert "0.0.9 (former)" in str(refused.value)
    assert edition() in str(refused.value)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("gone", "why"), [("workers", "No worker process runs"), ("relay", "No relay runs"), ("", "none takes a part")]
)
def test_it_is_told_why_nothing_goes_on(
    connection: Connection[Any], database: PostgresUrls, gone: str, why: str
) -> None:
    said: list[str] = []

    def listen(told: JobProgress) -> None:
        if told.why:
            said.append(told.why)
            raise KeyboardInterrupt

    def wait(asked: AskedJob) -> None:
        with pytest.raises(KeyboardInterrupt):
            wait_for(waiting, asked, listen)

    with alive(database, is_relayed=False) as waiting, ask(waiting) as asked:
        if gone:
            connection.execute("SELECT pg_advisory_unlock_all()")
        if gone == "relay":
            connection.execute("SELECT pg_advisory_lock(7015, 5)")
        wait(asked)
    assert why in said[0]
