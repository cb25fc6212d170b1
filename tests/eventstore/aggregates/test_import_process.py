"""What may happen to an import process, and in which order."""

import re
from datetime import timedelta
from functools import reduce
from pathlib import Path

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from eventstore.aggregates import import_process
from eventstore.aggregates.aggregate import Event
from eventstore.aggregates.import_process import (
    IMPORT_PROCESS,
    CancelImport,
    CompleteImport,
    DryRunErrored,
    DryRunSucceeded,
    EraseSubject,
    FailImport,
    ImportCancelled,
    ImportCommand,
    ImportErrored,
    ImportPostponed,
    ImportProcess,
    ImportProcessed,
    ImportRetried,
    PostponeImport,
    RetryImport,
    SubjectErased,
    decide,
    evolve,
    identity_of,
    stream_of,
)
from eventstore.errors import AccountErased, AlreadyImported, IllegalTransition, ImportInProgress, Refused
from tests.support.commands import COMMANDS
from tests.support.make import (
    NOON,
    OTHER_DIGEST,
    Given,
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

COMPLETE = CompleteImport(start=2, account_number="A-00000001")
FAIL = FailImport(start=2, code="account_failed_validation", detail="No.")
POSTPONE = PostponeImport(start=2, code="worker_lost", due_at=NOON)


def given(*events: Event) -> Given:
    return Given(IMPORT_PROCESS, events)


def test_a_new_import_is_staged() -> None:
    given().when(stage()).then(staged())


def test_staging_the_same_content_again_appends_nothing() -> None:
    given(staged()).when(stage()).then()
    given(staged(), started()).when(stage()).then()


def test_staging_other_content_replaces_what_is_pending() -> None:
    given(staged()).when(stage(OTHER_DIGEST)).then(staged(OTHER_DIGEST))


def test_asking_for_a_real_run_replaces_a_pending_dry_run() -> None:
    given(staged(is_dry_run=True)).when(stage()).then(staged())


def test_other_content_is_refused_while_the_import_is_in_progress() -> None:
    given(staged(), started()).when(stage(OTHER_DIGEST)).refuses(ImportInProgress)


def test_a_processed_import_is_never_staged_again() -> None:
    given(staged(), started(), processed()).when(stage()).refuses(AlreadyImported)


@pytest.mark.parametrize(
    "events",
    [
        (staged(), started(), errored()),
        (staged(), cancelled()),
        (staged(is_dry_run=True), started(), dry_run_succeeded()),
    ],
)
def test_an_ended_import_without_account_is_staged_again_whatever_the_content(events: tuple[Event, ...]) -> None:
    given(*events).when(stage()).then(staged())


def test_starting_counts_the_attempt() -> None:
    given(staged()).when(start()).then(started(attempt=1))
    given(staged(), started(), postponed()).when(start()).then(started(attempt=2))


def test_staging_again_counts_attempts_anew() -> None:
    given(staged(), started(), errored(), staged()).when(start()).then(started(attempt=1))


def test_an_import_that_is_not_due_is_not_started() -> None:
    later = NOON + timedelta(hours=1)
    given(staged(not_before=later)).when(start()).then()
    given(staged(not_before=later)).when(start(), at=later).then(started())
    given(staged(), started(), postponed(due_at=later)).when(start()).then()


def test_an_import_that_another_worker_has_is_left_alone() -> None:
    given(staged(), started()).when(start(worker=8)).then()


def test_after_the_last_attempt_the_import_errs() -> None:
    tried = (staged(), started(), postponed(), started(attempt=2), postponed(attempt=2))
    event = decide(start(max_attempts=2), reduce(IMPORT_PROCESS.evolve, tried, ImportProcess()), NOON)
    assert isinstance(event, ImportErrored)
    assert event.code == "attempts_exhausted"


def test_completing_gives_the_account_its_number() -> None:
    given(staged(), started()).when(COMPLETE).then(
        ImportProcessed(attempt=1, account_number="A-00000001", created_at=NOON)
    )


def test_completing_twice_appends_nothing() -> None:
    given(staged(), started(), processed()).when(COMPLETE).then()


def test_completing_with_another_number_is_refused() -> None:
    other = CompleteImport(start=2, account_number="A-00000002")
    given(staged(), started(), processed()).when(other).refuses(IllegalTransition)


def test_completing_a_dry_run_creates_no_account() -> None:
    given(staged(is_dry_run=True), started()).when(COMPLETE).then(DryRunSucceeded(attempt=1))


@pytest.mark.promise("accepted-creation-created-dry", "dry-run-never-displaces")
@pytest.mark.asvs("V2.3.1")
@pytest.mark.parametrize("digest", ["a" * 64, OTHER_DIGEST])
@pytest.mark.parametrize("history", [(staged(),), (staged(), started(), postponed())])
def test_a_dry_run_never_displaces_a_creation_that_was_accepted(history: tuple[Event, ...], digest: str) -> None:
    given(*history).when(stage(digest, is_dry_run=True)).refuses(ImportInProgress)
    with pytest.raises(ImportInProgress, match="a creation is already scheduled"):
        decide(stage(digest, is_dry_run=True), reduce(IMPORT_PROCESS.evolve, history, ImportProcess()), NOON)


@pytest.mark.promise("dry-run-never-displaces")
def test_a_creation_displaces_a_dry_run_that_waits() -> None:
    given(staged(is_dry_run=True)).when(stage()).then(staged())
    given(staged(is_dry_run=True)).when(stage(OTHER_DIGEST, is_dry_run=True)).then(
        staged(OTHER_DIGEST, is_dry_run=True)
    )


def test_failing_a_dry_run_is_told_apart() -> None:
    expected = DryRunErrored(attempt=1, code=FAIL.code, detail=FAIL.detail)
    given(staged(is_dry_run=True), started()).when(FAIL).then(expected)


def test_a_stale_attempt_is_refused() -> None:
    retaken = (staged(), started(), postponed(), started(attempt=2))
    for command in (COMPLETE, FAIL, POSTPONE):
        given(*retaken).when(command).refuses(IllegalTransition)


def test_postponing_makes_the_import_pending_until_it_is_due() -> None:
    given(staged(), started()).when(POSTPONE).then(ImportPostponed(attempt=1, code="worker_lost", due_at=NOON))
    given(staged(), started(), postponed()).when(POSTPONE).then()


def test_only_what_is_pending_can_be_cancelled() -> None:
    given(staged()).when(CancelImport(reason="no")).then(ImportCancelled(reason="no"))
    given(staged(), cancelled()).when(CancelImport()).then()
    given(staged(), started()).when(CancelImport()).refuses(IllegalTransition)
    given(staged(), started(), processed()).when(CancelImport()).refuses(IllegalTransition)


def test_a_cancelled_import_cannot_be_started() -> None:
    given(staged(), cancelled()).when(start()).then()


def test_only_what_has_erred_can_be_retried() -> None:
    given(staged(), started(), errored()).when(RetryImport(reason="mended")).then(ImportRetried(reason="mended"))
    given(staged(), started(), processed()).when(RetryImport()).refuses(IllegalTransition)
    given().when(RetryImport()).refuses(IllegalTransition)


@for_all(st.lists(COMMANDS, max_size=30))
def test_whatever_is_asked_repeating_changes_nothing_and_one_account_is_made_at_most(
    commands: list[ImportCommand],
) -> None:
    process, made = ImportProcess(), 0
    for command in commands:
        try:
            event = decide(command, process, NOON)
        except Refused:
            continue
        if event is None:
            continue
        before, process = process, evolve(process, event)
        made += isinstance(event, ImportProcessed)
        assert made <= 1
        assert process.attempt >= 0
        assert before.status != "PROCESSED" or isinstance(event, SubjectErased), "nothing else follows an account"
        try:
            again = decide(command, process, NOON)
        except Refused:
            continue
        assert again is None or not isinstance(command, CompleteImport | FailImport | PostponeImport)


@for_all(st.from_regex(r"[A-Za-z0-9_-]{1,32}", fullmatch=True), st.text(min_size=1))
def test_a_stream_id_gives_back_whom_it_is_about(supplier: str, external: str) -> None:
    assert identity_of(stream_of(supplier, external)) == (supplier, external)


ERASE = EraseSubject(reason="DSR-1")


def test_an_account_that_is_erased_stays_processed() -> None:
    erased = SubjectErased(account_number="A-00000001", reason="DSR-1", erased_at=NOON)
    given(staged(), started(), processed()).when(ERASE).then(erased)
    given(staged(), started(), processed(), erased).when(ERASE).then()
    given(staged(), started(), processed(), erased).when(stage(OTHER_DIGEST)).refuses(AlreadyImported)


@pytest.mark.parametrize("history", [(staged(),), (staged(), cancelled()), (staged(), started(), errored())])
def test_an_import_without_account_ends_with_its_erasure(history: tuple[Event, ...]) -> None:
    given(*history).when(ERASE).then(SubjectErased(reason="DSR-1", erased_at=NOON))
    erased = (*history, SubjectErased(reason="DSR-1", erased_at=NOON))
    given(*erased).when(stage(OTHER_DIGEST)).refuses(AccountErased)
    given(*erased).when(start()).then()
    given(*erased).when(RetryImport()).refuses(IllegalTransition)
    given(*erased).when(CancelImport()).then()


def test_what_is_in_progress_or_was_never_staged_cannot_be_erased() -> None:
    given(staged(), started()).when(ERASE).refuses(IllegalTransition)
    given().when(ERASE).refuses(IllegalTransition)


def test_every_event_leaves_a_status_which_is_written_down_once() -> None:
    assert {*import_process.STATUS_AFTER, SubjectErased} == {*import_process.TOPICS.values()}
    file = Path(import_process.__file__).resolve()
    for package in ("api", "cli", "eventstore", "projections", "workers"):
        for other in (file.parents[2] / package).rglob("*.py"):
            said = re.search(r'(Import|DryRun)[A-Z]\w+"?(\(\))?: "[A-Z_]{4,}"', other.read_text())
            assert other == file or not said, other
