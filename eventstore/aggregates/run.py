"""A run: what an importer sends under one name, over any number of requests. Pure.

The streams of accounts hold which of them were staged under a run. A stream here is a batch of what no account holds:
how many lines were refused or only validated, or which accounts were there before. It takes one event, so that a batch
that is appended twice counts once.
"""

from datetime import datetime
from typing import Literal, assert_never

import msgspec

from eventstore.aggregates.aggregate import Aggregate, Command, Count, Event, Events, Instant, State, event_of

Mode = Literal["create", "validate", "dry_run"]


class RunCounted(Event, frozen=True):
    """Counts of one api process over a span of time. No values.

    `valid` lines were validated only; `warned` of them had `warnings`. `refused` lines were refused for `counts`. Both
    are by code@place, with [] for any item of an array.
    """

    since: Instant
    mode: Mode
    valid: Count = 0
    refused: Count = 0
    counts: dict[str, Count] = msgspec.field(default_factory=dict)
    warned: Count = 0
    warnings: dict[str, Count] = msgspec.field(default_factory=dict)


class AccountsReplayed(Event, frozen=True):
    """These accounts, by external number, were sent under the run as they had been accepted before."""

    accounts: tuple[str, ...]
    mode: Mode


class CountRun(Command, frozen=True):
    """Record these counts."""

    since: datetime
    mode: Mode
    valid: int = 0
    refused: int = 0
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    warned: int = 0
    warnings: dict[str, int] = msgspec.field(default_factory=dict)


class ReplayAccounts(Command, frozen=True):
    """Record that these accounts belong to the run as well."""

    accounts: tuple[str, ...]
    mode: Mode


class Run(State, frozen=True):
    """State of a batch: in the log or not yet."""

    is_counted: bool = False


def decide(command: CountRun | ReplayAccounts, run: Run, at: datetime) -> RunCounted | AccountsReplayed | None:
    """The event that follows; none for nothing, and none for a batch that is in the log."""
    if run.is_counted:
        return None
    match command:
        case CountRun():
            return event_of(RunCounted, command) if command.valid or command.refused else None
        case ReplayAccounts():
            return event_of(AccountsReplayed, command) if command.accounts else None


def evolve(run: Run, event: RunCounted | AccountsReplayed) -> Run:
    """The state after the event."""
    match event:
        case RunCounted() | AccountsReplayed():
            return Run(is_counted=True)
        case _:
            assert_never(event)


def stream_of(supplier: str, run: str, batch: str) -> str:
    return f"run/{supplier}/{run}/{batch}"


def run_of(stream: str) -> tuple[str, str]:
    """(supplier code, name) of a run's stream."""
    _, supplier, batch = stream.split("/", 2)
    return supplier, batch.rsplit("/", 1)[0]


EVENTS: Events = {
    "run_counted.v1": (RunCounted, CountRun),
    "accounts_replayed.v1": (AccountsReplayed, ReplayAccounts),
}
RUN = Aggregate("run", EVENTS, Run(), decide, evolve, parts=3)
