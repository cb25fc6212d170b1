"""Simulated histories with failures lose, duplicate or break nothing; deliberate faults in the rules are found."""

from typing import Any

import pytest
from msgspec.structs import replace

from eventstore.aggregates.import_process import (
    IMPORT_PROCESS,
    CompleteImport,
    ImportProcess,
    ImportProcessed,
    ImportStarted,
    StageImport,
)
from lab.simulation.simulator import InvariantBroken, Simulation

REGRESSIONS: tuple[int, ...] = ()
"""Seeds that have failed once."""


@pytest.mark.parametrize("seed", [*range(12), *REGRESSIONS])
def test_a_history_of_misfortune_loses_and_doubles_nothing(seed: int) -> None:
    counts = Simulation(seed).run()
    assert counts["imports"] == 200
    assert counts["accounts"] > 100


def test_every_misfortune_happens() -> None:
    counts = sum((Simulation(seed).run() for seed in range(3)), start=Simulation(0, imports=0).counts)
    for misfortune in ("torn before", "torn after", "messages lost", "workers died", "workers hung", "ImportPostponed"):
        assert counts[misfortune] > 5, misfortune


def test_one_seed_is_one_history() -> None:
    assert Simulation(1).run() == Simulation(1).run()
    assert Simulation(1).run() != Simulation(2).run()


def stale_attempts_count(command: Any, process: ImportProcess, at: Any) -> Any:
    """Decide as `decide` does, but accept every completion."""
    if isinstance(command, CompleteImport) and process.status in ("PENDING", "PROCESSED") and not process.is_dry_run:
        return ImportProcessed(attempt=process.attempt, account_number=command.account_number, created_at=at)
    return IMPORT_PROCESS.decide(command, process, at)


def staging_is_forgotten(command: Any, process: ImportProcess, at: Any) -> Any:
    """Decide as `decide` does, but treat other content as a repetition while the import is pending."""
    if isinstance(command, StageImport) and process.status == "PENDING":
        return None
    return IMPORT_PROCESS.decide(command, process, at)


def attempts_are_not_counted(command: Any, process: ImportProcess, at: Any) -> Any:
    """Decide as `decide` does, but with unlimited attempts."""
    if hasattr(command, "max_attempts"):
        command = replace(command, max_attempts=10**6)
    return IMPORT_PROCESS.decide(command, process, at)


def attempts_for_tokens() -> Any:
    """Decide as `decide` does, but accept an outcome whose attempt has the present number, as formerly."""
    attempts: dict[tuple[str, int], int] = {}

    def decide(command: Any, process: ImportProcess, at: Any) -> Any:
        stream = process.staged.content_sha256.partition("#")[0] if process.staged else ""
        attempt = attempts.get((stream, getattr(command, "start", 0)))
        if process.status == "IN_PROGRESS" and attempt == process.attempt:
            command = replace(command, start=process.start)
        event = IMPORT_PROCESS.decide(command, process, at)
        if isinstance(event, ImportStarted):
            attempts[stream, process.version + 1] = event.attempt
        return event

    return decide


@pytest.mark.promise("state-machine-simulation-find")
@pytest.mark.asvs("V2.3.1")
def test_a_late_worker_is_found_where_attempts_stand_for_tokens() -> None:
    def look_for_it() -> None:
        for seed in range(30):
            Simulation(seed, decide=attempts_for_tokens()).run()

    with pytest.raises(InvariantBroken, match="the outcome is that of"):
        look_for_it()


@pytest.mark.parametrize("mistake", [stale_attempts_count, staging_is_forgotten, attempts_are_not_counted])
def test_a_mistake_in_the_core_is_found(mistake: Any) -> None:
    def look_for_it() -> None:
        for seed in range(30):
            Simulation(seed, decide=mistake).run()

    with pytest.raises(InvariantBroken, match="seed"):
        look_for_it()
