"""Parts of long jobs are taken by one worker at a time, given up when they fail again and again, and finished once."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from embedded.postgres import PostgresUrls
from eventstore.log.long_jobs import (
    MAX_ATTEMPTS,
    LongJob,
    add_job,
    end_job,
    finish_part,
    give_back_part,
    known_job,
    open_job,
    refuse_job,
    remaining_s,
    renew_part,
    results_of,
    standing_of,
    take_part,
    try_again,
    waiting_parts,
)
from tests.support.parts import alive


@pytest.fixture
def connection(database: PostgresUrls) -> Iterator[Connection[Any]]:
    """Of the service's role, which workers have; the workers 1 and 2 live."""
    with alive(database, 1, 2) as opened:
        yield opened


@pytest.fixture
def job(connection: Connection[Any]) -> LongJob:
    return add_job(connection, "verify", "{}", "e", 30, [("a", 10), ("b", 20)])


def test_a_part_is_taken_by_one_worker_the_named_one_first(connection: Connection[Any], job: LongJob) -> None:
    assert waiting_parts(connection, 5) == [(job.job, 1), (job.job, 2)]
    second = take_part(connection, job.job, 2, 1)
    assert second is not None
    assert (second.number, second.piece, second.attempt) == (2, "b", 1)
    first = take_part(connection, job.job, 2, 2)
    assert first is not None
    assert first.number == 1
    assert take_part(connection, job.job, 1, 1) is None
    assert waiting_parts(connection, 5) == []


def test_results_come_in_the_order_of_the_parts(connection: Connection[Any], job: LongJob) -> None:
    for number in (2, 1):
        part = take_part(connection, job.job, number, 1)
        assert part is not None
        assert finish_part(connection, part, 1, f"r{number}")
        assert not finish_part(connection, part, 1, "again")
    assert results_of(connection, job.job) == ["r1", "r2"]
    standing = standing_of(connection, job.job)
    assert (standing.is_done, standing.events_done, standing.events) == (True, 30, 30)


def test_a_part_of_a_worker_that_is_gone_is_open_and_cannot_be_finished_by_it(
    connection: Connection[Any], database: PostgresUrls, job: LongJob
) -> None:
    with alive(database, 3, is_relayed=False):
        lost = take_part(connection, job.job, 1, 3)
        assert lost is not None
        assert take_part(connection, job.job, 1, 1) is not None  # the other part
        assert take_part(connection, job.job, 1, 1) is None
    taken = take_part(connection, job.job, 1, 2)
    assert taken is not None
    assert (taken.number, taken.attempt) == (1, 2)
    assert not renew_part(connection, lost, 3)
    assert not finish_part(connection, lost, 3, "late")
    assert finish_part(connection, taken, 2, "r")


def test_a_part_whose_lease_has_ended_is_open_unless_it_is_renewed(connection: Connection[Any], job: LongJob) -> None:
    part = take_part(connection, job.job, 1, 1)
    assert part is not None
    connection.execute("UPDATE long_job_parts SET lease_until = clock_timestamp() - interval '1 s' WHERE number = 1")
    assert renew_part(connection, part, 1)
    assert waiting_parts(connection, 5) == [(job.job, 2)]
    connection.execute("UPDATE long_job_parts SET lease_until = clock_timestamp() - interval '1 s' WHERE number = 1")
    assert waiting_parts(connection, 5) == [(job.job, 1), (job.job, 2)]


def test_a_part_is_given_up_after_so_many_tries_until_somebody_asks_again(
    connection: Connection[Any], job: LongJob
) -> None:
    for _ in range(MAX_ATTEMPTS):
        assert standing_of(connection, job.job).given_up is None
        part = take_part(connection, job.job, 1, 1)
        assert part is not None
        give_back_part(connection, part, 1, error="no luck")
    given_up = standing_of(connection, job.job).given_up
    assert given_up is not None
    assert (given_up.number, given_up.piece, given_up.error) == (1, "a", "no luck")
    assert waiting_parts(connection, 5) == [(job.job, 2)]
    try_again(connection, job.job)
    assert standing_of(connection, job.job).given_up is None


def test_a_part_that_is_given_back_at_a_stop_was_not_tried(connection: Connection[Any], job: LongJob) -> None:
    for _ in range(MAX_ATTEMPTS + 1):
        part = take_part(connection, job.job, 1, 1)
        assert part is not None
        assert part.attempt == 1
        give_back_part(connection, part, 1, is_counted=False)


def test_there_is_one_open_job_of_the_same_arguments(connection: Connection[Any], job: LongJob) -> None:
    assert open_job(connection, "verify", "{}") == job
    with pytest.raises(psycopg.errors.UniqueViolation):
        add_job(connection, "verify", "{}", "e", 30, [])
    refuse_job(connection, job.job, "other")
    assert standing_of(connection, job.job).refused_by == "other"
    end_job(connection, job.job, "done")
    assert (open_job(connection, "verify", "{}"), known_job(connection, job.job)) == (None, None)
    assert waiting_parts(connection, 5) == []
    add_job(connection, "verify", "{}", "e", 30, [])


@pytest.mark.parametrize(
    ("done", "total", "seconds", "left"), [(0, 10, 5.0, None), (5, 10, 5.0, 5.0), (10, 10, 5.0, 0.0), (1, 4, 2.0, 6.0)]
)
def test_the_rest_takes_as_long_as_it_took_so_far(done: int, total: int, seconds: float, left: float | None) -> None:
    assert remaining_s(done, total, seconds) == left
