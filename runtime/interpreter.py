"""How Python runs in the processes that live long or work hard: the api, the roles, the builders of projections."""

import gc
import sys

SWITCH_INTERVAL_S = 0.0005
"""How long one thread may keep another from the interpreter: between an append and its commit, all writers wait."""


def search_seldom() -> None:
    """Look for garbage seldom. Modules leave little: looking while they are loaded took a twentieth of a start."""
    gc.set_threshold(50_000, 20, 100)


def tune_interpreter(*, is_forked: bool = False) -> None:
    """Call it when everything is loaded.

    Requests, events and rows leave no cycles behind: what is loaded now need not be searched for any, and the rest
    seldom. Searching took a fifth of the time of making the platform's rows. A process that was forked does not search
    even once: it would copy all that it shares with its parent.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    if not is_forked:
        gc.collect()
    gc.freeze()
    search_seldom()
