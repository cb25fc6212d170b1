"""A log that loses its end: the steps of an operator after a standby that was behind has become the primary.

Without a synchronous standby, a split loses events that the smaller side has acknowledged. The relay of the larger side
finds checkpoints that cover them, and stops the intake. The run then follows `docs/how-to/continue-a-log.md` and sends
the lost accounts again.
"""

import contextlib
import json
import re
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta

from lab.failover.world import OVER_S, SUPPLIER, World
from tests.support.importing import ImportClient
from tests.support.make import an_account, encoded
from tests.support.running import wait_for

SEALED_S = 12.0
"""Seconds for which the smaller side continues after the larger one has a primary, and signs events that get lost."""
FIRST = 10_000_000


def is_stopped(base_url: str) -> bool:
    """Return True if the api answers that the intake is stopped."""
    try:
        urllib.request.urlopen(f"{base_url}/readyz", timeout=2).close()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return bool(json.load(refusal).get("code") == "intake_stopped")
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        pass
    return False


def lose_the_end(world: World) -> list[str]:
    """Make the log lose its end, continue it, and send the lost accounts again.

    Return a sentence for each step that does not end as the page says.
    """
    world.store.configure({"synchronous_mode": False, "synchronous_mode_strict": False})
    world.restart_with("local")
    world.start_senders(first=FIRST)
    world.wait_until_steady(list(world.api_names))
    old_primary = world.store.wait_for_primary()
    world.network.split([old_primary.machine, world.machines["proxy"], *world.site("1")])
    world.store.wait_for_primary(except_for=old_primary)
    failed_over_at = datetime.now(UTC) - timedelta(seconds=1)
    wait_for(lambda: is_stopped(world.api_url("2")), "the shorter log takes nothing in", timeout_s=OVER_S)
    time.sleep(SEALED_S)
    world.network.heal()
    world.store.wait_until_whole(standby="replica")
    world.stop_senders()
    lost = world.acknowledged() - world.staged()
    position = world.last_position(before=failed_over_at)
    problems: list[str] = []
    before, sealed, after = (
        world.service.cli("verify", "--all", check=False),
        world.service.cli(
            "seal", "--continue-from", str(position), "--reason", f"split of {old_primary.machine.name}", check=False
        ),
        world.service.cli("verify", "--all", check=False),
    )
    if not lost:
        return ["asynchronous split: no acknowledged account was lost, so the fault had no effect"]
    if before.returncode != 1 or not re.search("TRUNCATED|REWRITTEN|ALTERED", before.stderr):
        problems.append(f"asynchronous split: verify did not find the loss: {before.stderr}")
    if (
        sealed.returncode
        or after.returncode
        or f"the log continues from {position}, lost {position + 1}" not in after.stdout
    ):
        output = sealed.stderr + after.stdout + after.stderr
        problems.append(f"asynchronous split: the log does not record its loss and continue: {output}")
    world.wait_until_ready()
    with contextlib.closing(ImportClient(world.api_url("2"), world.api_key)) as client:
        for number in sorted(world.number_of(external) for external in lost):
            client.create(encoded(an_account(SUPPLIER, number)))
    print(
        f"{'asynchronous split':<22} {len(lost)} acknowledged accounts lost after position {position}, the log goes on "
        "openly, and they were sent again",
        flush=True,
    )
    return problems
