"""Proposals: never started without another person's approval within 72 hours, in whatever order commands come."""

from datetime import datetime, timedelta
from functools import reduce
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from eventstore.aggregates.aggregate import Command, Event, event_of
from eventstore.aggregates.owner_task import (
    KEY_PREFIX,
    OWNER_TASK,
    SECOND_PERSON,
    ApproveOwnerTask,
    FailOwnerTask,
    FinishOwnerTask,
    OwnerTaskApproved,
    OwnerTaskFailed,
    OwnerTaskFinished,
    OwnerTaskKind,
    OwnerTaskRejected,
    OwnerTaskRequested,
    OwnerTaskStarted,
    OwnProposal,
    ProposalEnded,
    RejectOwnerTask,
    RequestOwnerTask,
    StartOwnerTask,
    actor_of,
    approval_of,
    is_approved,
)
from eventstore.errors import IllegalTransition, Refused
from tests.support.make import NOON

PROPOSE = RequestOwnerTask(kind="revert", arguments={}, user="u", requested_at=NOON, mac="m", preview_sha256="d")
PROPOSED = event_of(OwnerTaskRequested, PROPOSE)
IN_TIME, TOO_LATE = NOON + timedelta(hours=72, microseconds=-1), NOON + timedelta(hours=72)
APPROVE = ApproveOwnerTask(user="v", approved_at=IN_TIME, mac="n")
APPROVED, REJECTED = event_of(OwnerTaskApproved, APPROVE), OwnerTaskRejected(user="v", reason="r")
STARTED = OwnerTaskStarted(attempt=1)
REJECT = RejectOwnerTask(user="v", reason="r")


@pytest.mark.promise("second-person")
@pytest.mark.parametrize(
    ("history", "command", "outcome"),
    [
        ([PROPOSED], APPROVE, APPROVED),
        ([PROPOSED], REJECT, REJECTED),
        ([PROPOSED], replace(REJECT, user="u"), replace(REJECTED, user="u")),
        ([PROPOSED], replace(APPROVE, user="u"), OwnProposal),
        ([PROPOSED], replace(APPROVE, approved_at=TOO_LATE), ProposalEnded),
        ([replace(PROPOSED, requested_at=None)], APPROVE, ProposalEnded),
        ([PROPOSED], StartOwnerTask(), IllegalTransition),
        ([PROPOSED], PROPOSE, None),
        ([PROPOSED, REJECTED], StartOwnerTask(), IllegalTransition),
        ([PROPOSED, APPROVED], StartOwnerTask(), OwnerTaskStarted(attempt=1)),
        ([PROPOSED, REJECTED, APPROVED], StartOwnerTask(), IllegalTransition),
        ([PROPOSED, STARTED], StartOwnerTask(), IllegalTransition),
        *[
            ([PROPOSED, APPROVED, STARTED, end, copied], StartOwnerTask(), IllegalTransition)
            for end in (OwnerTaskFinished(), OwnerTaskFailed(error="no"))
            for copied in (APPROVED, STARTED)
        ],
        *[([PROPOSED, h], command, IllegalTransition) for h in (APPROVED, REJECTED) for command in (APPROVE, REJECT)],
        *[([replace(PROPOSED, preview_sha256="")], command, IllegalTransition) for command in (APPROVE, REJECT)],
        *[([], command, IllegalTransition) for command in (APPROVE, REJECT)],
    ],
)
def test_a_proposal_is_decided_once_by_another_person(
    history: list[Event], command: Command, outcome: Event | type[Exception] | None
) -> None:
    state = reduce(OWNER_TASK.evolve, history, OWNER_TASK.initial)
    if isinstance(outcome, type):
        with pytest.raises(outcome) as refused:
            OWNER_TASK.decide(command, state, NOON)
        assert isinstance(refused.value, Refused)
        assert str(refused.value) != refused.value.german
    else:
        assert OWNER_TASK.decide(command, state, NOON) == outcome


MOMENTS = st.timedeltas(timedelta(), timedelta(hours=100)).map(lambda later: NOON + later)
PEOPLE = st.sampled_from(["u", "v", "operator:anna", "operator:ben"])
COMMANDS = st.one_of(
    st.builds(
        RequestOwnerTask,
        kind=st.just("revert"),
        arguments=st.just({}),
        user=PEOPLE,
        requested_at=MOMENTS,
        preview_sha256=st.just("d"),
    ),
    st.builds(ApproveOwnerTask, user=PEOPLE, approved_at=MOMENTS),
    st.builds(RejectOwnerTask, user=PEOPLE),
    st.builds(StartOwnerTask),
    st.builds(FinishOwnerTask, attempt=st.integers(0, 3)),
    st.builds(FailOwnerTask, attempt=st.integers(0, 3), error=st.just("no")),
)


@pytest.mark.promise("second-person")
@given(st.lists(COMMANDS, max_size=12))
def test_nothing_is_started_without_another_person_within_72_hours(commands: list[Command]) -> None:
    state, events = OWNER_TASK.initial, []
    for command in commands:
        try:
            event = OWNER_TASK.decide(command, state, NOON)
        except Refused:
            continue
        if event is not None:
            state = OWNER_TASK.evolve(state, event)
            events.append(event)
    decisions = [event for event in events if isinstance(event, OwnerTaskApproved | OwnerTaskRejected)]
    assert len(decisions) <= 1
    if any(isinstance(event, OwnerTaskStarted) for event in events):
        [approval], request = decisions, events[0]
        assert isinstance(approval, OwnerTaskApproved)
        assert isinstance(request, OwnerTaskRequested)
        assert request.requested_at is not None
        assert approval.user != request.user
        assert approval.approved_at < request.requested_at + timedelta(hours=72)
        first_start = [type(event) for event in events].index(OwnerTaskStarted)
        assert events.index(approval) < first_start


def mac(*parts: Any) -> str:
    return repr(parts)


def is_mac(given: str, *parts: Any) -> bool:
    return given == mac(*parts)


@pytest.mark.promise("second-person")
def test_an_approval_that_was_not_made_by_the_api_for_this_request_does_not_count() -> None:
    def approval(request: OwnerTaskRequested = PROPOSED, user: str = "v", at: datetime = IN_TIME) -> OwnerTaskApproved:
        return event_of(OwnerTaskApproved, approval_of(request, "t", user, at, mac))

    assert is_approved(PROPOSED, [approval()], "t", is_mac)
    assert not is_approved(PROPOSED, [], "t", is_mac)
    assert not is_approved(PROPOSED, [approval()], "other", is_mac)
    assert not is_approved(PROPOSED, [approval(replace(PROPOSED, mac="of another request"))], "t", is_mac)
    for forged in ({"user": "w"}, {"mac": ""}, {"approved_at": NOON}):
        assert not is_approved(PROPOSED, [replace(approval(), **forged)], "t", is_mac), forged
    assert not is_approved(PROPOSED, [approval(user="u")], "t", is_mac)
    assert not is_approved(PROPOSED, [approval(at=TOO_LATE)], "t", is_mac)
    for without in ({"requested_at": None}, {"preview_sha256": ""}):
        request = replace(PROPOSED, **without)
        assert not is_approved(request, [approval(request)], "t", is_mac), without


def test_a_person_of_the_command_line_has_a_name_and_a_user_an_id() -> None:
    assert (actor_of("operator:anna"), actor_of("u_1")) == ("operator:anna", "user:u_1")
    assert actor_of(f"{KEY_PREFIX}k_1") == "user:key:k_1"


def test_the_actions_of_the_setting_are_kinds_of_tasks() -> None:
    assert " ".join(SECOND_PERSON) == "revert release erase complete switch retry cancel"
    assert [kind.removeprefix("projection_") for kind in SECOND_PERSON.values()] == [*SECOND_PERSON]
    assert {*SECOND_PERSON.values()} <= {*get_args(OwnerTaskKind)}
