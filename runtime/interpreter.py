"""How Python runs in the processes that live long or work hard: the api, the roles, the builders of projections."""

import gc
import sys

SWITCH_INTERVAL_S = 0.0005
"""How long one thread may keep another from the interpreter: between an append and its commit, all writers wait."""
LOADED = 200_000
"""More than a process makes while it loads what it needs."""


def load_without_searching() -> None:
    """Look for no garbage while modules are loaded, since they leave little: it took a twentieth of a start."""
    gc.set_threshold(LOADED, 20, 100)


def tune_interpreter() -> None:
    """Call it when everything is loaded.

    Requests, events and rows leave no cycles behind: what is loaded now is never searched for any, and the rest
    seldom. Searching took a fifth of the time of making the platform's rows, and searching what is loaded even once a
    tenth of a start; a process that was forked would copy all that it shares with its parent.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
