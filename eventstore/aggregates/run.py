"""Batches of counts: of a run, which is what an importer sends under one name, and of a supplier's refusals. Pure.

The streams of accounts hold which of them were staged under a run. A stream here is a batch of what no account holds:
how many lines were refused or only validated, or which accounts were there before. It takes one event, so that a batch
that is appended twice counts once. Of refused requests the log keeps codes and places, no payload and no value.
"""

from datetime import datetime
from typing import Literal

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


class RequestsRefused(Event, frozen=True):
    """What one api process has refused in a span of time: counts by code@place, [] for any item of an array."""

    since: Instant
    counts: dict[str, Count]


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


class CountRefusals(Command, frozen=True):
    """Record these counts."""

    since: datetime
    counts: dict[str, int]


class Batch(State, frozen=True):
    """State of a batch: in the log or not yet."""

    is_counted: bool = False


BatchEvent = RunCounted | AccountsReplayed | RequestsRefused


def decide(command: Command, batch: Batch, at: datetime) -> BatchEvent | None:
    """The event that follows; none for nothing, and none for a batch that is in the log."""
    match command:
        case CountRun() if not batch.is_counted and (command.valid or command.refused):
            return event_of(RunCounted, command)
        case ReplayAccounts() if not batch.is_counted and command.accounts:
            return event_of(AccountsReplayed, command)
        case CountRefusals() if not batch.is_counted and command.counts:
            return event_of(RequestsRefused, command)
    return None


def evolve(batch: Batch, event: BatchEvent) -> Batch:
    """The state after the event."""
    return Batch(is_counted=True)


def stream_of(supplier: str, run: str, batch: str) -> str:
    return f"run/{supplier}/{run}/{batch}"


def refusals_stream_of(supplier: str, batch: str) -> str:
    return f"refusals/{supplier}/{batch}"


def run_of(stream: str) -> tuple[str, str]:
    """(supplier code, name) of a run's stream."""
    _, supplier, batch = stream.split("/", 2)
    return supplier, batch.rsplit("/", 1)[0]


EVENTS: Events = {
    "run_counted.v1": (RunCounted, CountRun),
    "accounts_replayed.v1": (AccountsReplayed, ReplayAccounts),
}
RUN = Aggregate("run", EVENTS, Batch(), decide, evolve, parts=3)
REFUSALS = Aggregate("refusals", {"requests_refused.v1": (RequestsRefused, CountRefusals)}, Batch(), decide, evolve)
