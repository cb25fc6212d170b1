"""Names of states, roles, tasks and their outcomes on pages."""

from typing import Literal

from console.presentation.texts import N_

Tone = Literal["", "good", "warn", "bad", "busy"]

HEADLINES = {
    400: N_("Action not possible"),
    403: N_("Not allowed"),
    404: N_("Page not found"),
    405: N_("Action not possible"),
    413: N_("Too much data"),
    429: N_("Too many requests"),
    500: N_("Unexpected error"),
    503: N_("The service is busy or not available"),
}
NAMES: dict[str, dict[str, str]] = {
    "status_names": {"ongoing": N_("ongoing"), "paused": N_("paused"), "complete": N_("complete")},
    "user_states": {"active": N_("may sign in"), "disabled": N_("disabled"), "erased": N_("erased")},
    "role_names": {
        "auditor": N_("Auditor"),
        "support": N_("Support"),
        "operator": N_("Operator"),
        "importer": N_("Importer"),
    },
    "state_names": {
        "PENDING": N_("Waiting"),
        "IN_PROGRESS": N_("In progress"),
        "PROCESSED": N_("Processed"),
        "ERRORED": N_("Failed"),
        "CANCELLED": N_("Cancelled"),
        "DRY_RUN_SUCCEEDED": N_("Dry run succeeded"),
        "DRY_RUN_ERRORED": N_("Dry run failed"),
    },
    "record_names": {
        "delivery-note": N_("Delivery note"),
        "energy-amount": N_("Energy amount"),
        "invoice": N_("Market participant invoice"),
    },
    "version_states": {
        "live": N_("live"),
        "building": N_("being built"),
        "ready": N_("ready"),
        "retired": N_("retired"),
        "outdated": N_("outdated"),
    },
    "task_names": {
        "erase": N_("Erase the person"),
        "heal": N_("Rebuild the views of an account"),
        "projection_verify": N_("Verify"),
        "projection_rebuild": N_("Rebuild"),
        "projection_switch": N_("Switch"),
        "log_verify": N_("Verify the log"),
        "key_create": N_("Create a key"),
        "key_revoke": N_("Revoke the key"),
        "user_create": N_("Create a user"),
        "user_link": N_("Create a sign-in link"),
        "user_role": N_("Change the role"),
        "user_disable": N_("Disable"),
        "user_enable": N_("Enable"),
        "user_sign_out": N_("Sign out everywhere"),
        "user_erase": N_("Erase a user"),
        "user_openid": N_("Apply the role from the OpenID provider"),
    },
    "task_states": {
        "REQUESTED": N_("requested"),
        "RUNNING": N_("running"),
        "DONE": N_("done"),
        "FAILED": N_("failed"),
    },
    "outcome_names": {
        "changed": N_("Rows changed"),
        "added": N_("Rows added"),
        "removed": N_("Rows removed"),
        "parked": N_("Parked streams"),
        "version": N_("Version"),
        "former": N_("Previous version"),
        "position": N_("Position"),
        "events": N_("Events"),
        "hashed": N_("Verified events"),
        "anchored": N_("Covered by checkpoints up to position"),
        "checkpoints": N_("Matching checkpoints"),
        "seconds": N_("Duration [s]"),
    },
}
"""Names that templates show, by table and value. Outcomes are the numbers of a task that pages show, in this order."""
TONES: dict[str, Tone] = {
    "IN_PROGRESS": "busy",
    "PROCESSED": "good",
    "ERRORED": "bad",
    "DRY_RUN_SUCCEEDED": "good",
    "DRY_RUN_ERRORED": "bad",
    "CANCELLED": "warn",
    "live": "good",
    "building": "busy",
    "ready": "busy",
    "outdated": "warn",
}
"""Colours of the states of imports and of projection versions."""
