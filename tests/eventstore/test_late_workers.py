"""A worker that wakes up late changes nothing: the account is made from the newest staging.

Importers, workers and the sweeper act in any order. A worker acts on the state at its start, however old that is.
"""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from msgspec.structs import replace

from eventstore.aggregates.aggregate import Command, Event
from eventstore.aggregates.import_process import (
    IMPORT_PROCESS,
    CancelImport,
    CompleteImport,
    EraseSubject,
    FailImport,
    ImportProcess,
    ImportProcessed,
    ImportStarted,
    PostponeImport,
    RetryImport,
)
from eventstore.errors import Refused
from tests.support.make import NOON, stage, start

CONTENTS = st.sampled_from(["a" * 64, "b" * 64])


class Workers(RuleBasedStateMachine):
    """One import, and the platform's row of it: the content of its account."""

    hands: Bundle[ImportProcess] = Bundle("hands")

    def __init__(self) -> None:
        super().__init__()
        self.process = ImportProcess()
        self.starts: list[int] = []
        self.row: str | None = None

    def decide(self, command: Any, process: ImportProcess, at: Any) -> Event | None:
        """Decide by the present rule."""
        return IMPORT_PROCESS.decide(command, process, at)

    def append(self, command: Command) -> Event | None:
        """Append the event of the command and return it; None if there is none or the command is refused."""
        try:
            event = self.decide(command, self.process, NOON)
        except Refused:
            return None
        if event is not None:
            self.process = IMPORT_PROCESS.evolve(self.process, event)
        return event

    @rule(digest=CONTENTS, is_dry_run=st.booleans())
    def stage(self, digest: str, is_dry_run: bool) -> None:
        self.append(stage(digest, is_dry_run=is_dry_run))

    @rule(command=st.sampled_from([CancelImport(), RetryImport()]))
    def change(self, command: Command) -> None:
        self.append(command)

    @rule()
    def erase(self) -> None:
        if self.append(EraseSubject()) is not None:
            self.row = None

    @rule(target=hands)
    def start(self) -> ImportProcess:
        """Return the worker's state of the process, which it read when it started."""
        if isinstance(self.append(start()), ImportStarted):
            self.starts.append(self.process.start)
        return self.process

    @rule()
    def give_back(self) -> None:
        """Postpone the present start, as the sweeper does."""
        self.append(PostponeImport(start=self.process.start, code="lease_expired", due_at=NOON - timedelta(seconds=1)))

    @rule(hand=hands)
    def complete(self, hand: ImportProcess) -> None:
        number = "" if hand.is_dry_run else f"A-{hand.start}"
        before = self.process
        event = self.append(CompleteImport(start=hand.start, account_number=number))
        assert event is None or hand.staged == before.staged, "the outcome is that of what is staged"
        if isinstance(event, ImportProcessed) and hand.staged is not None:
            self.row = hand.staged.content_sha256

    @rule(hand=hands)
    def fail(self, hand: ImportProcess) -> None:
        before = self.process
        event = self.append(FailImport(start=hand.start, code="document_not_found", detail="No."))
        assert event is None or hand.staged == before.staged, "the outcome is that of what is staged"

    @rule(hand=hands)
    def postpone(self, hand: ImportProcess) -> None:
        before = self.process
        event = self.append(PostponeImport(start=hand.start, code="processing_failed", due_at=NOON))
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


def test_a_late_worker_never_ends_what_was_staged_after_it() -> None:
    run_state_machine_as_test(Workers, settings=settings(stateful_step_count=30))


class AttemptsForTokens(Workers):
    """Former rule: an outcome was accepted if its attempt had the present number, which restarts at 1."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts: dict[int, int] = {}

    def decide(self, command: Any, process: ImportProcess, at: Any) -> Event | None:
        attempt = self.attempts.get(getattr(command, "start", 0))
        if process.status == "IN_PROGRESS" and attempt == process.attempt:
            command = replace(command, start=process.start)
        event = IMPORT_PROCESS.decide(command, process, at)
        if isinstance(event, ImportStarted):
            self.attempts[process.version + 1] = event.attempt
        return event


@pytest.mark.promise("state-machine-simulation-find")
def test_a_late_worker_is_found_where_attempts_stand_for_tokens() -> None:
    search = settings(
        max_examples=2_000,
        stateful_step_count=30,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(AttemptsForTokens, settings=search)
