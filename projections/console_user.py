"""The users of the console, what they may do and see. Table `console_user`; written in the append's transaction."""

from datetime import datetime
from typing import Any

import msgspec

from eventstore.aggregates.user import (
    UserCreated,
    UserDisabled,
    UserEnabled,
    UserErased,
    UserRoleChanged,
    UserStatus,
)
from eventstore.events import Recorded
from projections.versioning.view import View


class ConsoleUserRow(msgspec.Struct, frozen=True, kw_only=True):
    """One user. None leaves a column as it is."""

    user_id: str
    organisation: str | None = None
    role: str | None = None
    suppliers: str | None = None
    status: str | None = None
    created_at: datetime
    modified_at: datetime
    position: int


def console_user_row(recorded: Recorded, position: int) -> ConsoleUserRow | None:
    """The row that the event makes, or None for other events."""
    said: dict[str, str]
    match recorded.event:
        case UserCreated(organisation=organisation, role=role, suppliers=suppliers):
            said = {"organisation": organisation, "role": role, "suppliers": ",".join(suppliers), "status": "active"}
        case UserRoleChanged(role=role, suppliers=suppliers):
            said = {"role": role, "suppliers": ",".join(suppliers)}
        case UserDisabled() | UserEnabled() | UserErased() as event:
            said = {"status": _STATUS_AFTER[type(event)]}
        case _:
            return None
    return ConsoleUserRow(
        user_id=recorded.stream.split("/", 1)[1],
        created_at=recorded.recorded_at,
        modified_at=recorded.recorded_at,
        position=position,
        **said,
    )


_STATUS_AFTER: dict[type[Any], UserStatus] = {
    UserDisabled: "disabled",
    UserEnabled: "active",
    UserErased: "erased",
}


def _key_of(stream: str) -> dict[str, str] | None:
    return {"user_id": stream.split("/", 1)[1]} if stream.startswith("user/") else None


CONSOLE_USER = View(
    "console_user",
    ConsoleUserRow,
    console_user_row,
    events=(UserCreated, UserRoleChanged, *_STATUS_AFTER),
    key=("user_id",),
    key_of=_key_of,
    first=("created_at",),
    types={"suppliers": "text[]"},
    leaves_none=True,
    folds_all=True,
    indexes={"console_user_of_organisation": "(organisation, user_id)"},
)
"""Codes of suppliers hold no comma: a row carries them as one text."""
