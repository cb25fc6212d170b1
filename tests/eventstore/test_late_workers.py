"""A worker that wakes up late changes nothing: the account is made from the newest staging.

Importers, workers, the sweeper and operators act in any order, at any time of their own clocks. A worker acts on the
state at its start, however old that is. Messages and answers of the store may be lost or doubled: a command that is
repeated, or sent too late, is one more step.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from msgspec.structs import replace

from eventstore.aggregates.aggregate import Command, Event
from eventstore.aggregates.import_process import (
    IMPORT_PROCESS,
    WAITING,
    CancelImport,
    CompleteImport,
    EraseSubject,
    FailImport,
    ImportProcess,
    ImportProcessed,
    ImportReverted,
    ImportStaged,
    ImportStarted,
    PostponeImport,
    RetryImport,
    RevertImport,
    StageImport,
    StartImport,
    SubjectErased,
)
from eventstore.errors import Refused
from tests.support.commands import LEGAL
from tests.support.make import NOON, stage, start

CONTENTS = st.sampled_from(["a" * 64, "b" * 64])
CLOCKS = st.sampled_from([NOON - timedelta(minutes=1), NOON, NOON + timedelta(minutes=1)])
FOLLOWED = RevertImport(followed_by="release")
MAX_ATTEMPTS = 2
MIDNIGHT = NOON + timedelta(hours=12)

Decide = Callable[[Any, ImportProcess, Any], Event | None]


class Workers(RuleBasedStateMachine):
    """One import, and the platform's row of it: the content of its account."""

    hands: Bundle[ImportProcess] = Bundle("hands")

    def __init__(self, decide: Decide = IMPORT_PROCESS.decide) -> None:
        super().__init__()
        self.decide = decide
        self.process = ImportProcess()
        self.last: Event | None = None
        self.starts: list[int] = []
        self.retired: set[str] = set()
        """Numbers of reverted accounts."""
        self.row: str | None = None

    def append(self, command: Command, at: datetime = NOON) -> Event | None:
        """Append the event of the command and return it; None if there is none. Raises Refused."""
        event = self.decide(command, self.process, at)
        if event is not None:
            before, self.process = self.process, IMPORT_PROCESS.evolve(self.process, event)
            assert self.process.status in LEGAL[before.status], f"{before.status} became {self.process.status}"
            assert self.process.attempt <= MAX_ATTEMPTS
            takes_back = isinstance(event, SubjectErased | ImportReverted)
            assert before.status != "PROCESSED" or takes_back, "nothing else follows an account"
            assert not (isinstance(event, ImportReverted) and before.is_erased), "an erasure is never undone"
            if isinstance(command, CompleteImport | FailImport | PostponeImport):
                assert self.outcome(command, at) is None, "a repeated outcome changes nothing"
            comes_back = isinstance(self.last, ImportReverted) and not isinstance(event, ImportStaged | SubjectErased)
            assert not comes_back, "a reverted account comes back only when it is sent"
            self.last = event
        return event

    def outcome(self, command: Command, at: datetime) -> Event | None:
        try:
            return self.decide(command, self.process, at)
        except Refused:
            return None

    def try_append(self, command: Command, at: datetime = NOON) -> Event | None:
        try:
            return self.append(command, at)
        except Refused:
            return None

    @rule(digest=CONTENTS, is_dry_run=st.booleans(), at=CLOCKS)
    def stage(self, digest: str, is_dry_run: bool, at: datetime) -> None:
        try:
            self.append(stage(digest, is_dry_run=is_dry_run), at)
        except Refused:
            return
        assert self.process.staged is not None
        assert self.process.staged.content_sha256 == digest, "what is acknowledged is staged"

    @rule(command=st.sampled_from([CancelImport(), RetryImport()]))
    def change(self, command: Command) -> None:
        self.try_append(command)

    @rule(command=st.sampled_from([EraseSubject(), RevertImport(), RevertImport(run="r"), FOLLOWED]))
    def take_back(self, command: Command) -> None:
        number = self.process.account_number
        if (event := self.try_append(command)) is not None:
            self.row = None
        if isinstance(event, ImportReverted):
            self.retired.add(number)

    @rule(target=hands, at=CLOCKS)
    def start(self, at: datetime) -> ImportProcess:
        """Return the worker's state of the process, which it read when it started."""
        if isinstance(self.try_append(start(max_attempts=MAX_ATTEMPTS), at), ImportStarted):
            self.starts.append(self.process.start)
        return self.process

    @rule(due_at=CLOCKS)
    def give_back(self, due_at: datetime) -> None:
        """Postpone the present start, as the sweeper does."""
        self.try_append(PostponeImport(start=self.process.start, code="lease_expired", due_at=due_at))

    @rule(hand=hands, at=CLOCKS)
    def complete(self, hand: ImportProcess, at: datetime) -> None:
        number = "" if hand.is_dry_run else f"A-{hand.start}"
        before = self.process
        event = self.try_append(CompleteImport(start=hand.start, account_number=number), at)
        assert event is None or hand.staged == before.staged, "the outcome is that of what is staged"
        if isinstance(event, ImportProcessed) and hand.staged is not None:
            assert self.row is None, "an import makes one account"
            assert number not in self.retired
            self.row = hand.staged.content_sha256

    @rule(hand=hands)
    def fail(self, hand: ImportProcess) -> None:
        before = self.process
        event = self.try_append(FailImport(start=hand.start, code="document_not_found", detail="No."))
        assert event is None or hand.staged == before.staged, "the outcome is that of what is staged"

    @rule(hand=hands, due_at=CLOCKS)
    def postpone(self, hand: ImportProcess, due_at: datetime) -> None:
        before = self.process
        event = self.try_append(PostponeImport(start=hand.start, code="processing_failed", due_at=due_at))
        assert event is None or hand.start == before.start, "another start goes on"

    @invariant()
    def tokens_are_never_used_twice(self) -> None:
        assert len(set(self.starts)) == len(self.starts)

    @invariant()
    def log_and_platform_agree(self) -> None:
        is_made = self.process.status == "PROCESSED" and not self.process.is_erased
        assert is_made == (self.row is not None)
        if is_made:
            assert self.process.staged is not None
            assert self.process.account_number
            assert self.row == self.process.staged.content_sha256
            assert not self.process.is_dry_run

    def teardown(self) -> None:
        """Let one worker finish: no order of steps leaves an import that never ends."""
        if self.process.status in WAITING:
            self.start(MIDNIGHT)
        if self.process.status in WAITING:
            self.complete(self.process, MIDNIGHT)
        assert self.process.status not in WAITING


def test_whatever_happens_an_import_makes_one_account_of_its_newest_content() -> None:
    examples = 4 * settings().max_examples
    run_state_machine_as_test(Workers, settings=settings(max_examples=examples, stateful_step_count=30))


def attempts_stand_for_tokens() -> Decide:
    """Decide by a former rule: an outcome was accepted if its attempt had the present number, which restarts at 1."""
    attempts: dict[int, int] = {}

    def decide(command: Any, process: ImportProcess, at: Any) -> Event | None:
        if process.status == "IN_PROGRESS" and attempts.get(getattr(command, "start", 0)) == process.attempt:
            command = replace(command, start=process.start)
        event = IMPORT_PROCESS.decide(command, process, at)
        if isinstance(event, ImportStarted):
            attempts[process.version + 1] = event.attempt
        return event

    return decide


def late_completions_count(command: Any, process: ImportProcess, at: Any) -> Event | None:
    is_late = isinstance(command, CompleteImport) and process.status in ("PENDING", "PROCESSED")
    if is_late and not process.is_dry_run:
        return ImportProcessed(attempt=process.attempt, account_number=command.account_number, created_at=at)
    return IMPORT_PROCESS.decide(command, process, at)


def staging_is_forgotten(command: Any, process: ImportProcess, at: Any) -> Event | None:
    is_forgotten = isinstance(command, StageImport) and process.status == "PENDING"
    return None if is_forgotten else IMPORT_PROCESS.decide(command, process, at)


def attempts_have_no_end(command: Any, process: ImportProcess, at: Any) -> Event | None:
    if isinstance(command, StartImport):
        command = replace(command, max_attempts=10**6)
    return IMPORT_PROCESS.decide(command, process, at)


def some_attempts_never_begin(command: Any, process: ImportProcess, at: Any) -> Event | None:
    is_second = isinstance(command, StartImport) and process.attempt == 1
    return None if is_second else IMPORT_PROCESS.decide(command, process, at)


@pytest.mark.promise("state-machine-find")
@pytest.mark.asvs("V2.3.1")
@pytest.mark.parametrize(
    "mistake",
    [
        attempts_stand_for_tokens,
        lambda: late_completions_count,
        lambda: staging_is_forgotten,
        lambda: attempts_have_no_end,
        lambda: some_attempts_never_begin,
    ],
)
def test_a_mistake_in_the_decisions_is_found(mistake: Callable[[], Decide]) -> None:
    search = settings(
        max_examples=2_000,
        stateful_step_count=30,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )

    @seed(6)  # of a few seeds, the one that finds all mistakes soonest
    class Mistaken(Workers):
        def __init__(self) -> None:
            super().__init__(mistake())

    with pytest.raises(AssertionError):
        run_state_machine_as_test(Mistaken, settings=search)
