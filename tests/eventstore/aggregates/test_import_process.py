"""Decisions and states of an import process."""

import re
from collections.abc import Sequence
from datetime import timedelta
from functools import reduce
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st
from msgspec.structs import replace

from eventstore.aggregates import import_process
from eventstore.aggregates.aggregate import Command, Event, event_of
from eventstore.aggregates.import_process import (
    IMPORT_PROCESS,
    STATUS_AFTER_TOPIC,
    STATUSES,
    WAITING,
    CancelImport,
    CompleteImport,
    DryRunErrored,
    DryRunSucceeded,
    EraseSubject,
    FailImport,
    Following,
    ImportCancelled,
    ImportErrored,
    ImportProcess,
    ImportProcessed,
    ImportRetried,
    ImportReverted,
    ImportStarted,
    PostponeImport,
    RetryImport,
    RevertImport,
    SubjectErased,
    decide,
    evolve,
    identity_of,
    status_after,
    stream_of,
)
from eventstore.errors import (
    AccountErased,
    AccountFollowed,
    AlreadyImported,
    IllegalTransition,
    ImportInProgress,
    Refused,
)
from tests.support.commands import COMMANDS
from tests.support.make import (
    DIGEST,
    NOON,
    OTHER_DIGEST,
    cancelled,
    dry_run_succeeded,
    errored,
    postponed,
    processed,
    stage,
    staged,
    start,
    started,
)

LATER = NOON + timedelta(hours=1)
PENDING, DRY, RUNNING = [staged()], [staged(is_dry_run=True)], [staged(), started()]
TRIED_TWICE = [started(), postponed(), started(attempt=2), postponed(attempt=2)]
ERRED, DONE, DROPPED = [*RUNNING, errored()], [*RUNNING, processed()], [staged(), cancelled()]
DRY_RUNNING = [*DRY, started()]
IN_RUN = [staged(run="monday"), started(), processed()]
TAKEN_BACK = [*DONE, ImportReverted(account_number="A-00000001")]
COMPLETE = CompleteImport(start=2, account_number="A-00000001", rules_edition="2026", warnings=("warning@place",))
FAIL = FailImport(start=2, code="c", detail="D.", problems=("code@place",), rules_edition="2026")
POSTPONE = PostponeImport(start=2, code="worker_lost", due_at=NOON)
DRY_ERRED = DryRunErrored(attempt=1, code="c", detail="D.", problems=("code@place",), rules_edition="2026")
GIVEN_UP: dict[str, Any] = {
    "attempt": 2,
    "code": "attempts_exhausted",
    "detail": "Processing was given up after 2 attempts. Retry it when the cause is fixed.",
}
ERASE = EraseSubject(reason="DSR-1")
ERASED = SubjectErased(reason="DSR-1", erased_at=NOON)
ERASED_ACCOUNT = SubjectErased(reason="DSR-1", erased_at=NOON, account_number="A-00000001")

ROWS: list[tuple[Sequence[Event], Command, Event | type[Refused] | None]] = [
    ([], stage(not_after=LATER, run="monday", dropped=2), staged(not_after=LATER, run="monday", dropped=2)),
    (PENDING, stage(), None),
    (RUNNING, stage(), None),
    (PENDING, stage(OTHER_DIGEST), staged(OTHER_DIGEST)),
    (PENDING, stage(not_before=LATER), staged(not_before=LATER)),
    (DRY, stage(OTHER_DIGEST, is_dry_run=True), staged(OTHER_DIGEST, is_dry_run=True)),
    (RUNNING, stage(OTHER_DIGEST), ImportInProgress),
    (DONE, stage(), AlreadyImported),
    *[(ended, stage(), staged()) for ended in (ERRED, DROPPED, [*DRY_RUNNING, dry_run_succeeded()])],
    (PENDING, start(9), started(worker=9)),
    ([*RUNNING, postponed()], start(), started(attempt=2)),
    ([*ERRED, staged()], start(), started(attempt=1)),
    ([*ERRED, ImportRetried()], start(), started(attempt=1)),
    ([staged(not_before=LATER)], start(), None),
    ([staged(not_before=NOON)], start(), started()),
    ([*RUNNING, postponed(due_at=LATER)], start(), None),
    (RUNNING, start(worker=8), None),
    (DROPPED, start(), None),
    ([*PENDING, *TRIED_TWICE], start(max_attempts=3), started(attempt=3)),
    ([*PENDING, *TRIED_TWICE], start(max_attempts=2), ImportErrored(**GIVEN_UP)),
    ([*DRY, *TRIED_TWICE], start(max_attempts=2), DryRunErrored(**GIVEN_UP)),
    (RUNNING, COMPLETE, event_of(ImportProcessed, COMPLETE, attempt=1, created_at=NOON)),
    (DONE, COMPLETE, None),
    (DONE, CompleteImport(start=2, account_number="A-00000002"), IllegalTransition),
    (DRY_RUNNING, COMPLETE, event_of(DryRunSucceeded, COMPLETE, attempt=1)),
    ([*DRY_RUNNING, dry_run_succeeded()], COMPLETE, None),
    ([*DRY_RUNNING, dry_run_succeeded()], CompleteImport(start=3, account_number="A-00000001"), IllegalTransition),
    ([], COMPLETE, IllegalTransition),
    (RUNNING, FAIL, event_of(ImportErrored, FAIL, attempt=1)),
    (DRY_RUNNING, FAIL, DRY_ERRED),
    *[(ended, FAIL, None) for ended in (ERRED, [*DRY_RUNNING, DRY_ERRED])],
    ([*DRY_RUNNING, DRY_ERRED], FailImport(start=3, code="c", detail="D."), IllegalTransition),
    (RUNNING, POSTPONE, postponed()),
    ([*RUNNING, postponed()], POSTPONE, None),
    *[([*RUNNING, postponed(), started(attempt=2)], late, IllegalTransition) for late in (COMPLETE, FAIL, POSTPONE)],
    (PENDING, CancelImport(reason="no", private="p"), ImportCancelled(reason="no", private="p")),
    (DROPPED, CancelImport(), None),
    *[(history, CancelImport(), IllegalTransition) for history in (RUNNING, DONE)],
    (ERRED, RetryImport(reason="fixed", private="p"), ImportRetried(reason="fixed", private="p")),
    (PENDING, RetryImport(), None),
    *[(history, RetryImport(), IllegalTransition) for history in ([], DONE, DROPPED)],
    (DONE, ERASE, ERASED_ACCOUNT),
    ([*DONE, ERASED_ACCOUNT], ERASE, None),
    ([*DONE, ERASED_ACCOUNT], stage(OTHER_DIGEST), AlreadyImported),
    *[(history, ERASE, IllegalTransition) for history in ([], RUNNING)],
    *[(history, ERASE, ERASED) for history in (PENDING, DROPPED, ERRED)],
    *[([*history, ERASED], stage(OTHER_DIGEST), AccountErased) for history in (PENDING, DROPPED, ERRED)],
    ([*PENDING, ERASED], start(), None),
    ([*PENDING, ERASED], RetryImport(), IllegalTransition),
    ([*PENDING, ERASED], CancelImport(), None),
    (DONE, RevertImport(reason="wrong"), ImportReverted(account_number="A-00000001", reason="wrong")),
    (IN_RUN, RevertImport(run="monday"), ImportReverted(account_number="A-00000001", run="monday")),
    (DONE, RevertImport(run="monday"), AccountFollowed),
    *[(DONE, RevertImport(followed_by=what), AccountFollowed) for what in get_args(Following) if what],
    ([*DONE, ERASED_ACCOUNT], RevertImport(), AccountFollowed),
    *[(history, RevertImport(), IllegalTransition) for history in ([], PENDING, RUNNING, ERRED, [*ERRED, staged()])],
    *[(history, RevertImport(), None) for history in (DROPPED, TAKEN_BACK, [*PENDING, ERASED])],
    *[(TAKEN_BACK, stage(digest), staged(digest)) for digest in (DIGEST, OTHER_DIGEST)],
    (TAKEN_BACK, start(), None),
    (TAKEN_BACK, COMPLETE, IllegalTransition),
    (TAKEN_BACK, ERASE, ERASED),
    ([*TAKEN_BACK, staged(), started()], COMPLETE, IllegalTransition),
]


def after(history: Sequence[Event]) -> ImportProcess:
    return reduce(IMPORT_PROCESS.evolve, history, ImportProcess())


@pytest.mark.parametrize(("history", "command", "outcome"), ROWS)
def test_a_command_has_its_event_or_none_or_is_refused(
    history: Sequence[Event], command: Command, outcome: Event | type[Refused] | None
) -> None:
    process = after(history)
    if not isinstance(outcome, type):
        assert decide(command, process, NOON) == outcome
        return
    with pytest.raises(outcome) as refused:
        decide(command, process, NOON)
    if isinstance(refused.value, IllegalTransition):
        assert (refused.value.status, refused.value.command) == (process.status, type(command).__name__)
    if isinstance(refused.value, AlreadyImported):
        assert refused.value.account_number == process.account_number
    if isinstance(refused.value, AccountFollowed):
        assert isinstance(command, RevertImport)
        reason = "erasure" if process.is_erased else command.followed_by or "other_run"
        assert refused.value.followed_by == reason


@pytest.mark.promise("accepted-creation-created-dry", "dry-run-never-displaces")
@pytest.mark.asvs("V2.3.1")
@pytest.mark.parametrize("digest", ["a" * 64, OTHER_DIGEST])
@pytest.mark.parametrize("history", [PENDING, [*RUNNING, postponed()]])
def test_a_dry_run_never_displaces_a_creation_that_was_accepted(history: Sequence[Event], digest: str) -> None:
    with pytest.raises(ImportInProgress, match="a creation is already scheduled"):
        decide(stage(digest, is_dry_run=True), after(history), NOON)


@pytest.mark.promise("dry-run-never-displaces")
def test_a_creation_displaces_a_dry_run_that_waits() -> None:
    assert decide(stage(), after(DRY), NOON) == staged()


@pytest.mark.parametrize(
    ("history", "state"),
    [
        ([], ImportProcess(status="NEW")),
        (PENDING, ImportProcess(status="PENDING", staged=staged())),
        ([staged(not_before=NOON)], ImportProcess(status="PENDING", staged=staged(not_before=NOON), due_at=NOON)),
        ([staged(), started(worker=9)], ImportProcess(status="IN_PROGRESS", staged=staged(), attempt=1, worker=9)),
        ([*RUNNING, postponed()], ImportProcess(status="PENDING", staged=staged(), attempt=1, due_at=NOON)),
        (ERRED, ImportProcess(status="ERRORED", staged=staged(), attempt=1)),
        (DROPPED, ImportProcess(status="CANCELLED", staged=staged())),
        (DONE, ImportProcess(status="PROCESSED", staged=staged(), attempt=1, account_number="A-00000001")),
        (
            [*DRY_RUNNING, dry_run_succeeded()],
            ImportProcess(status="DRY_RUN_SUCCEEDED", staged=staged(is_dry_run=True), attempt=1),
        ),
        (
            [*DRY_RUNNING, DRY_ERRED],
            ImportProcess(status="DRY_RUN_ERRORED", staged=staged(is_dry_run=True), attempt=1),
        ),
        ([*ERRED, ImportRetried()], ImportProcess(status="PENDING", staged=staged())),
        (
            [*DONE, ERASED_ACCOUNT],
            ImportProcess(status="PROCESSED", account_number="A-00000001", is_erased=True),
        ),
        ([*PENDING, ERASED], ImportProcess(status="CANCELLED", is_erased=True)),
        (TAKEN_BACK, ImportProcess(status="CANCELLED", staged=staged(), attempt=1)),
        ([*TAKEN_BACK, staged(OTHER_DIGEST)], ImportProcess(status="PENDING", staged=staged(OTHER_DIGEST))),
    ],
)
def test_a_state_is_what_its_events_add_up_to(history: Sequence[Event], state: ImportProcess) -> None:
    starts = [version for version, event in enumerate(history, 1) if isinstance(event, ImportStarted)]
    assert after(history) == replace(state, version=len(history), start=starts[-1] if state.attempt else 0)
    if history:
        assert status_after(history[-1]) == state.status
        topic = next(topic for topic, kind in IMPORT_PROCESS.topics.items() if kind is type(history[-1]))
        assert STATUS_AFTER_TOPIC.get(topic, state.status) == state.status


@for_all(st.lists(COMMANDS, max_size=30))
def test_after_a_revert_the_import_behaves_as_if_the_account_had_never_been(
    commands: list[Command],
) -> None:
    """The law push ∘ revert ∘ push = push, for decisions: versions and counts of the stream aside."""
    reverted, fresh = after(TAKEN_BACK), after(DROPPED)
    for command in [stage(), *commands]:
        outcomes = []
        for process in (reverted, fresh):
            asked = replace(command, start=process.start) if hasattr(command, "start") else command
            try:
                event: Any = decide(asked, process, NOON)
            except Refused as refusal:
                event = type(refusal)
            outcomes.append(event)
        assert outcomes[0] == outcomes[1]
        if outcomes[0] is None or isinstance(outcomes[0], type):
            continue
        reverted, fresh = evolve(reverted, outcomes[0]), evolve(fresh, outcomes[1])
        assert replace(reverted, version=0, start=0) == replace(fresh, version=0, start=0)


@for_all(st.from_regex(r"[A-Za-z0-9_-]{1,32}", fullmatch=True), st.text(min_size=1))
def test_a_stream_id_gives_back_whom_it_is_about(supplier: str, external: str) -> None:
    assert identity_of(stream_of(supplier, external)) == (supplier, external)


def test_statuses_are_in_the_order_of_a_process_and_two_of_them_are_no_end() -> None:
    assert " ".join(STATUSES) == "PENDING IN_PROGRESS PROCESSED ERRORED CANCELLED DRY_RUN_SUCCEEDED DRY_RUN_ERRORED"
    assert WAITING == ("PENDING", "IN_PROGRESS")
    assert set(STATUS_AFTER_TOPIC) == set(IMPORT_PROCESS.topics) - {"subject_erased.v1"}


def test_every_event_leaves_a_status_which_is_written_down_once() -> None:
    assert {*import_process.STATUS_AFTER, SubjectErased} == {*IMPORT_PROCESS.topics.values()}
    table = re.compile(r'(Import|DryRun)[A-Z]\w+"?(\(\))?: "[A-Z_]{4,}"')
    file = Path(import_process.__file__).resolve()
    assert table.search(file.read_text()), "the one table is found"
    for package in ("api", "cli", "console", "eventstore", "projections", "workers"):
        for other in (file.parents[2] / package).rglob("*.py"):
            assert other == file or not table.search(other.read_text()), other


@pytest.mark.parametrize("given", [DONE, ERRED, DROPPED], ids=["processed", "errored", "cancelled"])
def test_a_forged_start_of_an_ended_import_blocks_no_erasure(given: Sequence[Any]) -> None:
    """`decide` makes no such event; a writer of the database can."""
    state = reduce(evolve, [*given, started(attempt=7)], ImportProcess())
    assert (state.status, state.version) == (status_after(given[-1]), len(given) + 1)
    assert isinstance(decide(EraseSubject(reason="D"), state, NOON), SubjectErased)
