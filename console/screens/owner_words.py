"""What tasks of the database's owner and their states are called, and a task as pages tell it."""

from collections.abc import Callable, Sequence

import msgspec

from console.access.people import OPERATORS
from console.access.visit import ROOT, Visit
from console.presentation.listing import import_address
from console.presentation.texts import N_
from projections.unlogged.typed_reasons import reasons_of
from projections.unlogged.user_details import details_of
from projections.views.owner_task import OwnerTask

TASK_NAMES = {
    "erase": N_("Erase the person"),
    "heal": N_("Make all views of the account anew"),
    "projection_verify": N_("Verify"),
    "projection_rebuild": N_("Rebuild"),
    "projection_switch": N_("Switch"),
    "log_verify": N_("Verify the log"),
    "key_create": N_("Create a key"),
    "key_revoke": N_("Revoke the key"),
    "user_create": N_("Create a user"),
    "user_link": N_("Give out a link"),
    "user_role": N_("Change the role"),
    "user_disable": N_("Disable"),
    "user_enable": N_("Enable"),
    "user_sign_out": N_("Sign out everywhere"),
    "user_erase": N_("Erase a user"),
    "user_openid": N_("Take a role over from the OpenID provider"),
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


class ToldTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task with the names of things: what is done, about what, how far it is, who asked for it and why."""

    task: OwnerTask
    name: str
    state: str
    subject: str
    address: str
    """Where the page of what it is about is; "" for none."""
    who: str
    reason: str | None
    """None for one that may speak of a person, who is masked; "" for none."""


async def told_tasks(visit: Visit, tasks: Sequence[OwnerTask]) -> list[ToldTask]:
    """Tasks as pages tell them, in their order."""
    people = await visit.read(details_of, {task.user_id for task in tasks}) if tasks else {}
    named = {task.reason for task in tasks if task.reason}
    reasons = await visit.read(reasons_of, named) if named else {}
    return [
        ToldTask(
            task=task,
            name=visit._(TASK_NAMES.get(task.kind, task.kind)),
            state=visit._(TASK_STATES.get(task.status, task.status)),
            subject=_subject(task)[0],
            address=_subject(task)[1]
            if not {"key_id", "user_id"} & task.arguments.keys() or visit.person.may(OPERATORS)
            else "",
            who=people[task.user_id].shown if task.user_id in people else task.user_id,
            reason=_reason(task, reasons[task.reason].content if task.reason in reasons else ""),
        )
        for task in tasks
    ]


def _subject(task: OwnerTask) -> tuple[str, str]:
    match task.arguments:
        case {"supplier": supplier, "external": external}:
            return f"{supplier} {external}", import_address(supplier, external)
        case {"name": name}:
            return name, f"{ROOT}/projections/{name}/"
        case {"user_id": user_id}:
            return user_id, f"{ROOT}/users/{user_id}/"
        case {"key_id": key_id}:
            return key_id, f"{ROOT}/keys/{key_id}/"
        case _:
            return "", f"{ROOT}/proof/" if task.kind == "log_verify" else ""


def _reason(task: OwnerTask, content: str) -> str | None:
    is_about_person = "external" in task.arguments and task.kind != "erase"
    return None if is_about_person and task.reason else content
