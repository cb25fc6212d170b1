"""What users ask of the database's owner: requested once, carried out once."""

import pytest

from eventstore.aggregates.owner_task import (
    MAX_ATTEMPTS,
    FailOwnerTask,
    FinishOwnerTask,
    OwnerTaskCommand,
    OwnerTaskEvent,
    OwnerTaskFailed,
    OwnerTaskFinished,
    OwnerTaskRequested,
    OwnerTaskStarted,
    OwnerTaskState,
    RequestOwnerTask,
    StartOwnerTask,
    decide,
    evolve,
    stream_of,
)
from eventstore.clock import now
from eventstore.errors import IllegalTransition

AT = now()
REQUEST = RequestOwnerTask(kind="heal", arguments={"supplier": "NW", "external": "1"}, user="u", reason="r")
REQUESTED = OwnerTaskRequested(kind="heal", arguments={"supplier": "NW", "external": "1"}, user="u", reason="r")
STARTED = OwnerTaskStarted(attempt=1)


def after(*events: OwnerTaskEvent) -> OwnerTaskState:
    task = OwnerTaskState()
    for event in events:
        task = evolve(task, event)
    return task


def test_a_task_is_requested_once() -> None:
    assert decide(REQUEST, OwnerTaskState(), AT) == REQUESTED
    assert decide(REQUEST, after(REQUESTED), AT) is None


def test_a_task_is_started_finished_and_then_left_alone() -> None:
    assert decide(StartOwnerTask(), after(REQUESTED), AT) == STARTED
    assert decide(FinishOwnerTask(attempt=1), after(REQUESTED, STARTED), AT) == OwnerTaskFinished()
    done = after(REQUESTED, STARTED, OwnerTaskFinished())
    assert decide(FinishOwnerTask(attempt=1), done, AT) is None
    for command in (StartOwnerTask(), FailOwnerTask(attempt=1, error="x")):
        with pytest.raises(IllegalTransition):
            decide(command, done, AT)


def test_a_task_that_was_cut_off_is_taken_up_again_and_given_up_in_the_end() -> None:
    task = after(REQUESTED, STARTED)
    for attempt in range(2, MAX_ATTEMPTS + 1):
        event = decide(StartOwnerTask(), task, AT)
        assert event == OwnerTaskStarted(attempt=attempt)
        task = evolve(task, event)
    assert decide(StartOwnerTask(), task, AT) == OwnerTaskFailed(error="given up after 3 attempts")


def test_a_task_fails_for_good() -> None:
    failed = OwnerTaskFailed(error="no")
    assert decide(FailOwnerTask(attempt=1, error="no"), after(REQUESTED, STARTED), AT) == failed
    assert decide(FailOwnerTask(attempt=1, error="no"), after(REQUESTED, STARTED, failed), AT) is None
    with pytest.raises(IllegalTransition):
        decide(StartOwnerTask(), after(REQUESTED, failed), AT)


@pytest.mark.parametrize("command", [StartOwnerTask(), FinishOwnerTask(attempt=1), FailOwnerTask(attempt=1, error="x")])
def test_nothing_is_carried_out_that_nobody_has_asked_for(command: OwnerTaskCommand) -> None:
    with pytest.raises(IllegalTransition):
        decide(command, OwnerTaskState(), AT)


def test_what_has_not_begun_is_not_finished() -> None:
    with pytest.raises(IllegalTransition, match="FinishOwnerTask is not allowed while the state is requested"):
        decide(FinishOwnerTask(attempt=1), after(REQUESTED), AT)


def test_a_stream_names_its_task() -> None:
    assert stream_of("t_1") == "owner-task/t_1"


@pytest.mark.promise("e-mails-tasks-owner")
@pytest.mark.parametrize("late", [FinishOwnerTask(attempt=1), FailOwnerTask(attempt=1, error="x")])
def test_an_attempt_that_comes_back_late_ends_nothing(late: OwnerTaskCommand) -> None:
    for taken_over in (
        after(REQUESTED, STARTED, OwnerTaskStarted(attempt=2)),
        after(REQUESTED, STARTED, OwnerTaskStarted(attempt=2), OwnerTaskFinished()),
    ):
        with pytest.raises(IllegalTransition):
            decide(late, taken_over, AT)
