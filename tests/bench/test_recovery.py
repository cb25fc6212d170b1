"""A recovery is measured from the kill until Postgres answers, and held to five seconds."""

import threading
from collections.abc import Iterator

import pytest

from bench.recovery import MOST_S, Recovery, recovery, table
from bench.service import Bench
from tests.support.folders import temporary_folder


@pytest.fixture
def bench() -> Iterator[Bench]:
    with temporary_folder() as folder:
        bench = Bench(folder, 1.0, has_own_values=True)
        yield bench
        bench.close()


def test_a_postgres_that_is_killed_at_full_load_answers_again(bench: Bench) -> None:
    former = bench.postmaster
    with bench.watched():
        measured = recovery(bench, 1)
    assert bench.postmaster != former
    assert measured.read_mb >= 1
    assert measured.took_s > 0


def test_a_load_that_fails_says_so(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(bench: Bench, enough: threading.Event) -> None:
        raise RuntimeError("refused")

    monkeypatch.setattr("bench.recovery._load", refused)
    with pytest.raises(RuntimeError, match="refused"):
        recovery(bench, 10_000)


@pytest.mark.parametrize(("took_s", "said"), [(MOST_S, "ok"), (MOST_S + 0.1, "MISSED")])
def test_the_table_says_what_took_too_long(took_s: float, said: str) -> None:
    assert [*table([Recovery(900.4, took_s)])][1] == f"| 900 MB | {took_s:.1f} s | 5 s | {said} |"
