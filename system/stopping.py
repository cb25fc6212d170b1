"""Limit of the time that a process needs to stop."""

import signal

STOPS_WITHIN_S = 25
"""Longest time from SIGTERM to the end of a role [seconds]. It is shorter than the time-outs of deploy/.

The kernel then ends the process with SIGALRM. That loses no more than SIGKILL: nothing.
"""


def stop_in_time() -> None:
    """End this process after STOPS_WITHIN_S, whatever it waits for: a server, a lock or another thread."""
    signal.alarm(STOPS_WITHIN_S)
