"""Settings of the Python interpreter for the api, the roles and the builders of projections."""

import gc
import sys

SWITCH_INTERVAL_S = 0.01
"""Time until a thread must yield the interpreter [seconds]. Fewer switches make better use of the CPU caches."""
SHORT_SWITCH_INTERVAL_S = 0.0005
"""Switch interval for processes whose threads wait for each other, as requests of an api process wait for the log's
writer [seconds].
"""
LOADED = 200_000
"""Objects after which garbage is collected during a start, more objects than a start creates."""


def load_without_searching() -> None:
    """Collect no garbage while modules are loaded, since they leave little."""
    gc.set_threshold(LOADED, 20, 100)


def tune_interpreter(*, switch_interval_s: float = SWITCH_INTERVAL_S) -> None:
    """Tune thread switches and garbage collection. Call it after all imports.

    Requests, events and rows leave no reference cycles, so garbage is collected rarely, and loaded modules never: in a
    forked process a collection would copy the memory that it shares with its parent.
    """
    sys.setswitchinterval(switch_interval_s)
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
