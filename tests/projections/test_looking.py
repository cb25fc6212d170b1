"""Requests look at a long job: none waits, nothing is lost with who asks, nothing old is taken for what is now."""

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection

from embedded.postgres import PostgresUrls
from eventstore.log import locks
from eventstore.log.long_jobs import MAX_ATTEMPTS, end_job, give_back_part, known_job, refuse_job, take_part
from eventstore.log.requested_jobs import give_up_unasked
from eventstore.proof.hashed_range import Range
from projections.spreading import looking
from projections.spreading.asking import NotSpread, WantedJob
from projections.spreading.looking import MAX_OPEN, Done, look
from projections.spreading.pieces import HashPiece, JobPiece
from schemas.job_progress import JobProgress
from tests.support.german import is_german
from tests.support.parts import alive, working
from tests.support.running import wait_for

PIECES: list[tuple[JobPiece, int]] = [(HashPiece((Range(0, 2),)), 10), (HashPiece((Range(0, 2),)), 20)]


@pytest.fixture
def connection(database: PostgresUrls) -> Iterator[Connection[Any]]:
    with alive(database, 1) as opened:
        yield opened


def asked(connection: Connection[Any], *, run: str = "r", reached: int = 7) -> JobProgress | Done:
    wanted = WantedJob(reached, PIECES)
    return look(connection, "reconcile", {"supplier": "S", "run": run}, reached, lambda: wanted)


def progress(connection: Connection[Any], **of: Any) -> JobProgress:
    looked = asked(connection, **of)
    assert isinstance(looked, JobProgress)
    return looked


def done(connection: Connection[Any], database: PostgresUrls) -> Done:
    """Asked until other workers have done all parts; the one that seemed to run is back then."""
    results: list[Done] = []

    def is_done() -> bool:
        looked = asked(connection)
        if isinstance(looked, Done):
            results.append(looked)
        return bool(results)

    connection.execute("SELECT pg_advisory_unlock_all()")
    with working(database, 2):
        wait_for(is_done, "all parts are done")
    connection.execute("SELECT pg_advisory_lock(%s, 1), pg_advisory_lock(%s)", (locks.WORKERS, locks.RELAY))
    return results[0]


def pass_time(connection: Connection[Any], seconds: float) -> None:
    """As if so much time had passed since anything happened."""
    past = "clock_timestamp() - make_interval(secs => %(s)s)"
    connection.execute(
        f"UPDATE long_jobs SET asked_at = {past}, requested_at = {past}".encode(), {"s": seconds}
    )  # constants
    connection.execute(f"UPDATE long_job_parts SET done_at = {past} WHERE done_at IS NOT NULL".encode(), {"s": seconds})


def test_who_asks_is_told_at_once_how_far_it_is_until_all_is_done(
    connection: Connection[Any], database: PostgresUrls
) -> None:
    first = progress(connection)
    assert (first.parts, first.parts_done, first.events, first.workers, first.eta_s) == (2, 0, 30, 1, None)
    assert progress(connection).job == first.job
    part = take_part(connection, first.job, 1, 1)
    assert part is not None
    assert progress(connection).parts_taken == 1
    give_back_part(connection, part, 1, is_counted=False)
    result = done(connection, database)
    assert (result.job, len(result.results)) == (first.job, 2)


def test_results_can_be_taken_again_until_the_job_is_ended(connection: Connection[Any], database: PostgresUrls) -> None:
    """Who was killed with them in hand has lost nothing."""
    result = done(connection, database)
    assert asked(connection) == result
    end_job(connection, result.job, "done")
    assert progress(connection).job != result.job


def test_where_nobody_would_do_it_the_refusal_says_what_to_start(database: PostgresUrls) -> None:
    for workers, is_relayed, verb in (((), True, "importledger worker"), ((1,), False, "importledger relay")):
        with alive(database, *workers, is_relayed=is_relayed) as alone, pytest.raises(NotSpread, match=verb) as refused:
            asked(alone)
        assert is_german(refused.value.sentence.german)


def test_it_is_told_why_nothing_goes_on(connection: Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert progress(connection).why == ""
    monkeypatch.setattr(looking, "QUIET_S", 0.0)
    assert "none takes a part" in progress(connection).why


def never_wanted() -> WantedJob:
    raise AssertionError("cutting a run into parts takes seconds, also for who is refused then")


def test_a_supplier_has_a_few_jobs_at_a_time(connection: Connection[Any]) -> None:
    jobs = [progress(connection, run=f"r{number}").job for number in range(MAX_OPEN)]
    with pytest.raises(NotSpread, match=f"{MAX_OPEN} runs") as refused:
        look(connection, "reconcile", {"supplier": "S", "run": "another"}, 7, never_wanted)
    assert is_german(refused.value.sentence.german)
    assert progress(connection, run="r0").job == jobs[0]
    end_job(connection, jobs[1], "done")
    assert progress(connection, run="another").parts == 2


def test_a_part_that_was_given_up_ends_the_job_with_its_name(connection: Connection[Any]) -> None:
    job = progress(connection).job
    for _ in range(MAX_ATTEMPTS):
        part = take_part(connection, job, 2, 1)
        assert part is not None
        give_back_part(connection, part, 1, error="secret of a row")
    with pytest.raises(NotSpread, match=r"Part 2 of 2 \(positions 1 to 2\)") as refused:
        asked(connection)
    assert "secret" not in str(refused.value)
    assert is_german(refused.value.sentence.german)
    assert progress(connection).job != job


def test_workers_of_another_edition_are_named(connection: Connection[Any]) -> None:
    job = progress(connection).job
    refuse_job(connection, job, "0.0.9 (former)")
    assert progress(connection).job == job
    connection.execute("UPDATE long_jobs SET asked_at = clock_timestamp() - interval '20 s'")
    with pytest.raises(NotSpread, match=r"0\.0\.9 \(former\)") as refused:
        asked(connection)
    assert is_german(refused.value.sentence.german)


def test_who_keeps_asking_goes_on_while_the_run_changes(connection: Connection[Any]) -> None:
    job = progress(connection, reached=7).job
    assert progress(connection, reached=8).job == job


@pytest.mark.parametrize(("seconds", "reached", "goes_on"), [(60, 7, True), (60, 8, False), (1_000, 7, False)])
def test_a_job_that_was_left_alone_goes_on_where_nothing_has_changed(
    connection: Connection[Any], seconds: int, reached: int, goes_on: bool
) -> None:
    job = progress(connection, reached=7).job
    pass_time(connection, seconds)
    assert (progress(connection, reached=reached).job == job) is goes_on


def test_results_that_nobody_has_taken_are_old_after_two_minutes(
    connection: Connection[Any], database: PostgresUrls
) -> None:
    """What was changed on the platform by hand since then is in no event."""
    result = done(connection, database)
    pass_time(connection, 40)
    assert asked(connection) == result
    pass_time(connection, 130)
    assert progress(connection).job != result.job


def test_a_job_of_another_edition_is_not_gone_on_with(
    connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor ended while processes of that edition are asked for it too."""
    job = progress(connection).job
    with monkeypatch.context() as upgraded:
        upgraded.setattr(looking, "edition", lambda: "newer")
        with pytest.raises(NotSpread, match="another release") as refused:
            asked(connection)
    assert is_german(refused.value.sentence.german)
    assert progress(connection).job == job
    monkeypatch.setattr(looking, "edition", lambda: "newer")
    pass_time(connection, 40)
    assert progress(connection).job != job


def test_a_job_that_nobody_asks_for_any_more_is_given_up(connection: Connection[Any]) -> None:
    job = progress(connection).job
    assert give_up_unasked(connection) == []
    pass_time(connection, 1_000)
    assert give_up_unasked(connection) == [job]
    assert known_job(connection, job) is None


def test_a_job_that_was_just_ended_is_never_taken_for_done(
    connection: Connection[Any], database: PostgresUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parts are gone: of nothing, all is done."""
    job = progress(connection).job
    monkeypatch.setattr(looking, "note_request", lambda connection, name: end_job(connection, name, "done"))
    looked = progress(connection)
    assert (looked.job, looked.parts) == (job, 0)
