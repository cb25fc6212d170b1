"""What tasks of the database's owner and their states are called."""

from collections.abc import Callable

from console.texts import N_

TASK_NAMES = {
    "erase": N_("Erase the person"),
    "heal": N_("Make all views of the account anew"),
    "projection_verify": N_("Verify"),
    "projection_rebuild": N_("Rebuild"),
    "projection_diff": N_("Compare"),
    "projection_switch": N_("Switch"),
    "log_verify": N_("Verify the log"),
}
TASK_STATES = {
    "REQUESTED": N_("asked for"),
    "RUNNING": N_("running"),
    "DONE": N_("done"),
    "FAILED": N_("failed"),
}
OUTCOMES = {
    "changed": N_("Rows changed"),
    "added": N_("Rows added"),
    "removed": N_("Rows removed"),
    "parked": N_("Parked"),
    "version": N_("Version"),
    "former": N_("Former version"),
    "position": N_("Position"),
    "events": N_("Events"),
    "hashed": N_("Events hashed again"),
    "anchored": N_("Anchored up to position"),
    "checkpoints": N_("Checkpoints that agree"),
    "seconds": N_("Seconds"),
}
"""What is told of an outcome, in this order; the rest stands elsewhere on the page, or goes without saying."""


def outcome_names(say: Callable[[str], str]) -> list[tuple[str, str]]:
    """(key, name in the reader's language) of what an outcome may have."""
    return [(key, say(name)) for key, name in OUTCOMES.items()]
