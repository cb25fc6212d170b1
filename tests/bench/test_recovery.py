"""A recovery is measured from the kill until Postgres answers, and held to five seconds."""

from collections.abc import Iterator

import pytest

from bench.recovery import MOST_S, Recovery, main, recovery, table
from bench.service import Bench
from tests.support.folders import temporary_folder


@pytest.fixture
def bench(redis_url: str) -> Iterator[Bench]:
    """One with servers of its own; who has no Redis has none of these tests either."""
    with temporary_folder() as folder:
        bench = Bench(folder, 1.0, has_own_values=True)
        yield bench
        bench.close()


def test_a_postgres_that_is_killed_at_full_load_answers_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.recovery.ACCOUNTS", 2_000)
    former = bench.postmaster
    measured = recovery(bench, 10)
    assert bench.postmaster != former
    assert measured.read_mb >= 10
    assert measured.took_s > 0


def test_a_load_that_ends_before_there_is_enough_says_so(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.recovery.ACCOUNTS", 1)
    with pytest.raises(RuntimeError, match="all that was written"):
        recovery(bench, 1_000)


@pytest.mark.parametrize("sent", ["0", "1001", "-5", "much", "²"])
def test_more_log_than_there_ever_is_cannot_be_asked_for(sent: str) -> None:
    with pytest.raises(SystemExit):
        main(["--sizes", sent])


@pytest.mark.parametrize(("took_s", "said"), [(MOST_S, "ok"), (MOST_S + 0.1, "MISSED")])
def test_the_table_says_what_took_too_long(took_s: float, said: str) -> None:
    assert [*table([Recovery(900.4, took_s)])][1] == f"| 900 MB | {took_s:.1f} s | 5 s | {said} |"
