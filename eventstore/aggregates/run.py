"""Counts of runs and of refused requests, in batches. Pure.

A run is everything that an importer sends under one name. Events of accounts name the run that staged them. A batch
counts lines that have staged no account: refused, only validated, or sent before. Each batch is a stream with one
event, so a repeated append counts nothing twice. Refused requests leave codes and paths in the log, no payload and no
value.
"""

from datetime import datetime
from typing import Literal

import msgspec

from eventstore.aggregates.aggregate import Aggregate, Command, Count, Event, Events, Instant, State, event_of

Mode = Literal["create", "validate", "dry_run"]


class RunCounted(Event, frozen=True):
    """Counts of one api process over a span of time, without values.

    `valid` counts valid lines of mode `validate`, and `warned` the valid lines with warnings. `refused` counts the
    refused lines of any mode. `counts` (of refusals) and `warnings` are numbers by code@path, with [] for any item.
    """

    since: Instant
    mode: Mode
    valid: Count = 0
    refused: Count = 0
    counts: dict[str, Count] = msgspec.field(default_factory=dict)
    warned: Count = 0
    warnings: dict[str, Count] = msgspec.field(default_factory=dict)


class AccountsReplayed(Event, frozen=True):
    """Accepted accounts were sent again under the run. The event has their external numbers."""

    accounts: tuple[str, ...]
    mode: Mode


class RequestsRefused(Event, frozen=True):
    """Refused requests of one api process in a span of time, by code@path, with [] for any item of an array."""

    since: Instant
    counts: dict[str, Count]


class CountRun(Command, frozen=True):
    """Record how many accounts of a run were valid and refused, and their errors and warnings by code@path."""

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
    """Record the counts of errors in refused requests, by code@path."""

    since: datetime
    counts: dict[str, int]


class Batch(State, frozen=True):
    """State of a batch: True if the log has the batch."""

    is_counted: bool = False


BatchEvent = RunCounted | AccountsReplayed | RequestsRefused


def decide(command: Command, batch: Batch, at: datetime) -> BatchEvent | None:
    """Return the event that follows; None for empty counts and for a batch that is in the log."""
    match command:
        case CountRun() if not batch.is_counted and (command.valid or command.refused):
            return event_of(RunCounted, command)
        case ReplayAccounts() if not batch.is_counted and command.accounts:
            return event_of(AccountsReplayed, command)
        case CountRefusals() if not batch.is_counted and command.counts:
            return event_of(RequestsRefused, command)
    return None


def evolve(batch: Batch, event: BatchEvent) -> Batch:
    """Return the state after the event."""
    return Batch(is_counted=True)


def stream_of(supplier: str, run: str, batch: str) -> str:
    return f"run/{supplier}/{run}/{batch}"


def refusals_stream_of(supplier: str, batch: str) -> str:
    return f"refusals/{supplier}/{batch}"


def run_of(stream: str) -> tuple[str, str]:
    """Return supplier code and name of a run's stream."""
    _, supplier, batch = stream.split("/", 2)
    return supplier, batch.rsplit("/", 1)[0]


EVENTS: Events = {
    "run_counted.v1": (RunCounted, CountRun),
    "accounts_replayed.v1": (AccountsReplayed, ReplayAccounts),
}
RUN = Aggregate("run", EVENTS, Batch(), decide, evolve, parts=3)
REFUSALS = Aggregate("refusals", {"requests_refused.v1": (RequestsRefused, CountRefusals)}, Batch(), decide, evolve)
