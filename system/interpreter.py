"""How Python runs in the processes that live long or work hard: the api, the roles, the builders of projections."""

import gc
import sys

SWITCH_INTERVAL_S = 0.01
"""How long one thread may keep another from the interpreter: each switch brings other data into the caches."""
SHORT_SWITCH_INTERVAL_S = 0.0005
"""The same where threads wait for one another: all requests of an api process for the writer of the log."""
LOADED = 200_000
"""More than a process makes while it loads what it needs."""


def load_without_searching() -> None:
    """Look for no garbage while modules are loaded, since they leave little: it took a twentieth of a start."""
    gc.set_threshold(LOADED, 20, 100)


def tune_interpreter(*, switch_interval_s: float = SWITCH_INTERVAL_S) -> None:
    """Call it when everything is loaded.

    Requests, events and rows leave no cycles behind: what is loaded now is never searched for any, and the rest
    seldom. Searching took a fifth of the time of making the platform's rows, and searching what is loaded even once a
    tenth of a start; a process that was forked would copy all that it shares with its parent.
    """
    sys.setswitchinterval(switch_interval_s)
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
