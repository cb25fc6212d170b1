"""A signal stops a process at any step of its wait."""

import subprocess
import sys

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
