"""Permanent work is supervised: it restarts after a failure, which is reported until the work succeeds again."""

import ast
import asyncio
import threading
from pathlib import Path

import pytest
import structlog

from telemetry import supervision as module
from telemetry.supervision import LONGEST_PAUSE_S, Supervision
from tests.support.running import wait_for
from tests.support.sources import nodes

ROOT = Path(__file__).parents[2]
PACKAGES = {file.parent.name for file in ROOT.glob("*/__init__.py")} - {"tests", "bench", "lab", "checks"}
SHORT = {
    "api/bulk/answer.py": "of one request, which awaits them",
    "api/bulk/body.py": "of one request, which awaits them",
    "api/http/database.py": "of one request, which awaits it",
    "api/http/event_stream.py": "of one request, which awaits them",
    "api/http/batched_reads.py": "gives its errors to all who asked",
    "api/http/lists.py": "of one request, which awaits them",
    "api/http/shared_sockets.py": "of one connection",
    "api/http/shared_runs.py": "gives its errors to all who wait",
    "api/http/stopping.py": "of one request, which awaits them",
    "console/access/checkup.py": "of one visit, and a later visit starts it again",
    "system/parallel.py": "ends a helper process together with its parent",
    "workers/actors/process_imports.py": "finishes one import, and logs its errors",
}
"""Files that start short threads and tasks, with the reason why these need no supervisor."""
STARTING = {"Thread", "Timer", "create_task", "ensure_future", "start_new_thread"}


def starts(file: str) -> list[int]:
    """Lines of a file that start a thread or a task."""
    calls = (node for node in nodes(ROOT / file) if isinstance(node, ast.Call))
    names = ((getattr(call.func, "attr", getattr(call.func, "id", "")), call.lineno) for call in calls)
    return [line for name, line in names if name in STARTING]


@pytest.mark.promise("every-long-lived-thread")
def test_every_thread_and_task_that_stays_runs_under_the_supervisor() -> None:
    files = [str(file.relative_to(ROOT)) for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    starting = {file for file in files if starts(file)}
    assert starting == {"telemetry/supervision.py", *SHORT}


@pytest.fixture
def supervised(monkeypatch: pytest.MonkeyPatch) -> Supervision:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.001)
    return Supervision()


class Fails:
    """Work that fails so many times before it waits for `stop`."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.is_at_work = threading.Event()
        self.stop = threading.Event()

    def __call__(self) -> None:
        if self.left:
            self.left -= 1
            raise ValueError(f"failure {self.left}")
        self.is_at_work.set()
        self.stop.wait()


@pytest.mark.promise("every-long-lived-thread")
def test_a_thread_that_fails_starts_again_and_is_named_until_it_works(supervised: Supervision) -> None:
    work = Fails(3)
    thread = supervised.thread("work", work)
    assert work.is_at_work.wait(30)
    [trouble] = supervised.troubles()
    assert (trouble.name, trouble.error, trouble.times) == ("work", "ValueError: failure 0", 3)
    supervised.works("work")
    assert supervised.troubles() == []
    work.stop.set()
    thread.join(30)
    assert not thread.is_alive()


def test_a_thread_that_fails_after_it_was_stopped_ends(supervised: Supervision) -> None:
    work = Fails(1)
    work.stop.set()
    thread = supervised.thread("work", work, work.stop)
    thread.join(30)
    assert not thread.is_alive()


def test_work_that_keeps_failing_is_logged_again_later(
    supervised: Supervision, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOGGED_EVERY_S", 0.0)
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            supervised.failed("work", ValueError("one"))
    assert [line["times"] for line in lines] == [1, 2, 3]


def test_values_that_an_error_quotes_are_not_reported(supervised: Supervision) -> None:
    supervised.failed("work", KeyError("DE89370400440532013000"))
    assert [trouble.error for trouble in supervised.troubles()] == ["KeyError"]


def test_a_task_that_fails_starts_again(supervised: Supervision) -> None:
    async def run() -> list[str]:
        done: list[str] = []

        async def work() -> None:
            done.append("tried")
            if len(done) < 3:
                raise ValueError

        await supervised.task("task", work)
        return done

    assert asyncio.run(run()) == ["tried"] * 3
    assert supervised.troubles() == []


def test_a_part_that_fails_leaves_the_rest(supervised: Supervision) -> None:
    def do(numbers: dict[str, int]) -> None:
        with supervised.part("part", passes=lambda error: isinstance(error, ZeroDivisionError)):
            1 // numbers["number"]

    do({})
    assert [trouble.name for trouble in supervised.troubles()] == ["part"]
    do({"number": 1})
    assert supervised.troubles() == []
    with pytest.raises(ZeroDivisionError):
        do({"number": 0})


def test_the_same_failure_is_logged_once_and_another_one_anew(supervised: Supervision) -> None:
    with structlog.testing.capture_logs() as lines:
        pauses = [supervised.failed("work", ValueError("one")) for _ in range(30)]
        supervised.failed("work", ValueError("another"))
        supervised.works("work")
        supervised.works("work")
    assert [(line["event"], line.get("reason")) for line in lines] == [
        ("work failed", "ValueError: one"),
        ("work failed", "ValueError: another"),
        ("work succeeds again", None),
    ]
    assert pauses == sorted(pauses)
    assert max(pauses) <= LONGEST_PAUSE_S


def test_work_that_does_not_fail_again_counts_as_working(
    supervised: Supervision, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervised.failed("work", ValueError("one"))
    assert supervised.troubles()
    monkeypatch.setattr(module, "FORGOTTEN_AFTER_S", 0.0)
    wait_for(lambda: supervised.troubles() == [], "it is forgotten")


def test_work_that_only_waited_waits_no_more_when_its_server_answers(supervised: Supervision) -> None:
    supervised.failed("waits", ValueError("no"), is_waiting=True)
    supervised.failed("fails", ValueError("no"))
    supervised.stopped_waiting("waits")
    supervised.stopped_waiting("fails")
    assert [trouble.name for trouble in supervised.troubles()] == ["fails"]
