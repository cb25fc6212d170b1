"""What tasks of the database's owner and their states are called."""

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
