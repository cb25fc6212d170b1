"""Limit of the time that a process needs to stop."""

import signal

STOPS_WITHIN_S = 25
"""Longest time from SIGTERM to the end of a role [seconds].

After this time, which is shorter than the time-outs in deploy/, the kernel ends the process with SIGALRM. No data are
lost, as with SIGKILL.
"""


def stop_in_time() -> None:
    """End this process after STOPS_WITHIN_S, even if it waits for a server, a lock or another thread."""
    signal.alarm(STOPS_WITHIN_S)
