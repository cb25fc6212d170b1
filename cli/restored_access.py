"""Access after a restore, because a backup does not show which keys, users and passwords were revoked later.

Events in the folder of keys that ended access after the backup are repeated. All other access waits for an operator:
keys wait for `key confirm`, users for `user enable` and a new password.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from cli.operator import caused_by
from eventstore.aggregates.aggregate import Event
from eventstore.aggregates.organisation import KeyRevoked, RevokeKey
from eventstore.aggregates.user import ChangeUserRole, DisableUser, EraseUser, UserDisabled, UserErased, UserRoleChanged
from eventstore.clock import now
from eventstore.errors import IllegalTransition
from eventstore.log.ledger import Ledger
from eventstore.log.rows import rows_of
from projections.auxiliary.user_details import delete_passwords
from workers.operations import change_user

_REASON = "restored from a backup"
_SELECT_HOLDERS = "SELECT DISTINCT stream FROM events WHERE topic IN ('key_created.v1', 'user_created.v1') ORDER BY 1"


class RestoredAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Number of keys and users whose access was ended again; ids that wait for confirmation, with organisations."""

    ended_again: int
    unconfirmed_keys: dict[str, str]
    disabled_users: dict[str, str]


def restored_access(admin_url: str, ended: Sequence[tuple[str, Event]], *, is_confirmed: bool) -> RestoredAccess:
    """Repeat events that ended access, and disable all other access unless it is confirmed.

    Call this before the views are rebuilt: without views, no key is valid.
    """
    ledger = Ledger(admin_url, views=())
    try:
        again = sum(_ended_again(ledger, stream, event) for stream, event in ended)
        keys, users = ({}, {}) if is_confirmed else _held(ledger)
    finally:
        ledger.close()
    return RestoredAccess(ended_again=again, unconfirmed_keys=keys, disabled_users=users)


def _ended_again(ledger: Ledger, stream: str, event: Event) -> bool:
    """Repeat an event that ended the access of a key or user.

    Return False if the restored log does not have the key or user, or has the event already.
    """
    name, by = stream.split("/", 1)[1], caused_by()
    try:
        match event:
            case KeyRevoked():
                command = msgspec.convert(event, RevokeKey, from_attributes=True)
                return ledger.execute(stream, command, at=now(), by=by) is not None
            case UserDisabled():
                return change_user(ledger, name, DisableUser(), by=by)
            case UserRoleChanged(role=role, suppliers=suppliers):
                return change_user(ledger, name, ChangeUserRole(role=role, suppliers=suppliers), by=by)
            case UserErased():
                return change_user(ledger, name, EraseUser(), by=by)
    except IllegalTransition:
        pass
    return False


def _held(ledger: Ledger) -> tuple[dict[str, str], dict[str, str]]:
    with ledger.connection() as connection:
        streams = [stream for (stream,) in rows_of(connection, _SELECT_HOLDERS)]
        delete_passwords(connection)
    keys: dict[str, str] = {}
    users: dict[str, str] = {}
    states: dict[str, Any] = {stream: loaded.state for stream, loaded in ledger.load(streams).items()}
    for stream, state in states.items():
        name = stream.split("/", 1)[1]
        if stream.startswith("user/"):
            if state.status == "active" and change_user(ledger, name, DisableUser(), by=caused_by()):
                users[name] = state.organisation
            continue
        for key_id in sorted(state.valid):
            command = RevokeKey(key_id=key_id, reason=_REASON, until_confirmed=True)
            ledger.execute(stream, command, at=now(), by=caused_by())
            keys[key_id] = name
    return keys, users
