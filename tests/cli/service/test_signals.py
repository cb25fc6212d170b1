"""A signal stops a process at any step of its wait, and in time."""

import re
import signal
import subprocess
import sys

import pytest

from system.stopping import STOPS_WITHIN_S
from tests.support.folders import ROOT

AT_EACH_STEP = """
import faulthandler, signal, sys, threading
from cli.service.signals import stop_on_signals

faulthandler.dump_traceback_later(40, exit=True)

def stops_at(step):
    # Whether there was such a step of the wait; the signal comes just before it.
    left = step
    def trace(frame, event, argument):
        nonlocal left
        if frame.f_code.co_filename == threading.__file__:
            left -= 1
            if left == 0:
                signal.raise_signal(signal.SIGTERM)
        return trace
    stop = stop_on_signals()
    sys.settrace(trace)
    stop.wait(0.001)
    sys.settrace(None)
    assert left > 0 or stop.wait(30)
    return left <= 0

steps = 1
while stops_at(steps):
    steps += 1
print(steps)
"""


def test_a_signal_at_any_step_of_waiting_for_it_is_heard() -> None:
    result = subprocess.run([sys.executable, "-c", AT_EACH_STEP], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 10


NEVER_STOPS = """
import signal, time
from cli.service.signals import stop_on_signals
from system import stopping

stopping.STOPS_WITHIN_S = 1
stop_on_signals()
signal.raise_signal(signal.SIGTERM)
time.sleep(600)
"""


@pytest.mark.promise("role-ends-signal")
def test_a_process_that_does_not_stop_is_ended_by_the_kernel() -> None:
    ended = subprocess.run([sys.executable, "-c", NEVER_STOPS], capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGALRM, ended.stderr


_TIMEOUT = re.compile(r"(?:TimeoutStopSec=|terminationGracePeriodSeconds: |stop_grace_period: )(\d+)")


@pytest.mark.promise("role-ends-signal")
def test_every_recipe_leaves_a_role_this_time() -> None:
    recipes = [ROOT / "compose.yaml", *(ROOT / "deploy").rglob("*.service"), *(ROOT / "deploy").rglob("*.yaml")]
    allowed = [int(seconds) for recipe in recipes for seconds in _TIMEOUT.findall(recipe.read_text())]
    assert len(allowed) >= 8
    assert min(allowed) > STOPS_WITHIN_S
