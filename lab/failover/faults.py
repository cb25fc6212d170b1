"""The faults, a function each, in the order of `FAULTS`. Each is measured and undone, and the service then works."""

import json
import signal
import time
from collections.abc import Callable

from lab.failover.gaps import Measured
from lab.failover.store import Node
from lab.failover.world import OVER_S, ROLES, SITES, World
from tests.support.folders import ROOT
from tests.support.running import is_ready, wait_for

_CANCEL_WAITING = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
ALONE_S = 3.5
"""Seconds for which the primary commits alone. A standby that receives nothing for 5 s reconnects."""
AWAY_S = 10.0
"""Seconds for which a dispensable machine is away."""
STANDBY_S, NO_MANAGER_S = 1.0, 5.0
"""Longest allowed gap without a standby, and during faults that need no other primary [seconds]."""


def kill(world: World) -> Measured:
    """Kill the primary's machine, and boot it again when another is the primary."""
    old_primary = world.store.wait_for_primary()

    def inject() -> Node:
        old_primary.machine.lose_power()
        return old_primary

    return world.measure("kill primary", inject, old_primary.boot)


def cut(world: World) -> Measured:
    """Pull the primary's cable: clients get neither RST nor answer, and Postgres continues to run there."""
    old_primary = world.store.wait_for_primary()

    def inject() -> Node:
        world.network.cut(old_primary.machine)
        return old_primary

    return world.measure("cut primary", inject, world.network.heal)


def split(world: World) -> Measured:
    """Split the network: primary, HAProxy, one api, relay, worker and their importers are on the smaller side."""
    old_primary = world.store.wait_for_primary()

    def inject() -> Node:
        world.network.split([old_primary.machine, world.machines["proxy"], *world.site("1")])
        return old_primary

    return world.measure("split", inject, world.network.heal, apis=["api2"])


def switch_over(world: World) -> Measured:
    """Request another primary from Patroni."""
    old_primary = world.store.wait_for_primary()

    def inject() -> Node:
        world.store.switch_over(old_primary)
        return old_primary

    return world.measure("switchover", inject)


def lose_standby(world: World) -> Measured:
    """Kill a standby's machine. The other standby is enough for a commit."""
    standby = world.store.standbys()[0]

    def inject() -> None:
        standby.machine.lose_power()
        time.sleep(AWAY_S)

    return world.measure("loss of a standby", inject, standby.boot, alone_s=STANDBY_S)


def cut_standby(world: World) -> Measured:
    """Pull a standby's cable. The other standby is enough for a commit."""
    standby = world.store.standbys()[-1]

    def inject() -> None:
        world.network.cut(standby.machine)
        time.sleep(AWAY_S)

    return world.measure("cut standby", inject, world.network.heal, alone_s=STANDBY_S)


def cancel_waits(world: World) -> Measured:
    """Cancel commits that wait for a standby, let importers send again, and lose the primary.

    These commits are visible, but only on the primary. Importers must not get a confirmation.
    """
    old_primary = world.store.wait_for_primary()

    def inject() -> Node:
        cancelled, until = 0, time.monotonic() + ALONE_S
        with world.connection() as connection:
            while time.monotonic() < until or not cancelled:
                assert time.monotonic() < until + OVER_S, "no commit has waited for a standby"
                for process in old_primary.machine.processes():
                    if "walsender" in " ".join(process.cmdline()):
                        process.send_signal(signal.SIGSTOP)
                cancelled += connection.execute(_CANCEL_WAITING).rowcount
                time.sleep(0.05)
        old_primary.machine.lose_power()
        return old_primary

    return world.measure("cancelled waits", inject, old_primary.boot)


def lose_redis(world: World) -> Measured:
    """Kill Redis with all its data, and start it again after AWAY_S."""

    def inject() -> None:
        world.machines["redis"].lose_power()
        time.sleep(AWAY_S)

    return world.measure("loss of Redis", inject, world.boot_redis, alone_s=NO_MANAGER_S)


def restart_all(world: World) -> Measured:
    """Stop and start every role, one after the other."""
    return world.measure("rolling restart", lambda: _restart_each(world), alone_s=NO_MANAGER_S, together=True)


def upgrade_all(world: World) -> Measured:
    """Migrate the schema to the version of this tree, restart each role with it, and rebuild outdated projections.

    Relays and workers are stopped before the migration if the new version requires it.
    """

    def inject() -> None:
        world.run_code(ROOT)
        plan = world.operator("migrate", "--check", "--json", codes=(0, 2, 3)).splitlines()[-1]
        if not json.loads(plan)["can_be_rolled"]:
            for role in ("relay", "worker"):
                for site in SITES:
                    world.roles[f"{role}{site}"].stop()
        world.operator("migrate")
        _restart_each(world)
        world.operator("projections", "rebuild", "--outdated")

    return world.measure("rolling upgrade", inject, alone_s=NO_MANAGER_S, together=True)


def _restart_each(world: World) -> None:
    for role in ROLES:
        for site in SITES:
            program = world.roles[f"{role}{site}"]
            code = program.stop()
            assert code in (0, -signal.SIGTERM), f"{role}{site} ended with {code}: {program.last_line}"
            program.start()
            if role == "api":
                wait_for(lambda at=site: is_ready(world.api_url(at)), f"{role}{site} is ready", timeout_s=60)  # type: ignore[misc]
            else:
                time.sleep(1)


FAULTS: tuple[Callable[[World], Measured], ...] = (
    kill, cut, split, switch_over, lose_standby, cut_standby, cancel_waits, lose_redis, restart_all,
)  # fmt: skip
