"""Tasks of the database's owner that change users of the console. Each can be repeated."""

from typing import Any

import msgspec

from eventstore.aggregates.owner_task import OwnerTaskRequested
from eventstore.aggregates.user import SignInLinkIssued, User, UserRole, stream_of
from eventstore.log.ledger import Ledger
from projections.unlogged.sessions import LINK_LASTS
from projections.unlogged.user_details import delete_user_details
from workers.users import (
    change_role,
    create_user,
    disable_user,
    enable_user,
    erase_user,
    issue_link,
    sign_out_user,
)

_SIMPLE = {
    "user_disable": disable_user,
    "user_enable": enable_user,
    "user_sign_out": sign_out_user,
    "user_erase": erase_user,
}


def is_of_user(kind: str) -> bool:
    """Return True for a task about a user."""
    return kind.startswith("user_")


def user_of(ledger: Ledger, user_id: str) -> User:
    """The user as the log says."""
    stream = stream_of(user_id)
    user: User = ledger.load([stream])[stream].state
    return user


def may_change(ledger: Ledger, asking: User, arguments: dict[str, str]) -> bool:
    """Return True if nothing of the task reaches further than the user who asks for it."""
    if "*" in asking.suppliers:
        return True
    target = user_of(ledger, arguments["user_id"])
    organisations = {arguments.get("organisation", asking.organisation)}
    suppliers = set(_suppliers_in(arguments))
    if target.status != "unknown":
        organisations.add(target.organisation)
        suppliers |= set(target.suppliers)
    return organisations == {asking.organisation} and suppliers <= set(asking.suppliers)


def carry_out_on_user(owner: Ledger, request: OwnerTaskRequested, by: str) -> dict[str, Any]:
    """Do what was requested, with the rights of the database's owner; what came of it."""
    said, user_id = request.arguments, request.arguments["user_id"]
    if request.kind in _SIMPLE:
        _SIMPLE[request.kind](owner, user_id, by=by)
        return {"is_changed": True}
    if request.kind == "user_link":
        return _issue(owner, request, by)
    is_known = user_of(owner, user_id).status != "unknown"
    role, suppliers = msgspec.convert(said["role"], UserRole), _suppliers_in(said)
    if request.kind == "user_role" or (request.kind == "user_openid" and is_known):
        change_role(owner, user_id, role, suppliers, by=by)
    elif not is_known:
        create_user(owner, user_id, organisation=said["organisation"], role=role, suppliers=suppliers, by=by)
    return {"is_changed": True}


def forget_uncreated(owner: Ledger, user_id: str) -> None:
    """Delete the details of a user who was not created after all."""
    if user_of(owner, user_id).status == "unknown":
        with owner.connection() as connection:
            delete_user_details(connection, user_id)


def _issue(owner: Ledger, request: OwnerTaskRequested, by: str) -> dict[str, Any]:
    """Write the link, unless this was done before: it may have been used since."""
    user_id, at = request.arguments["user_id"], request.requested_at
    assert at is not None, "the MAC covers it"
    history = [one.event for one in owner.history(stream_of(user_id))]
    issued = [event.expires_at for event in history if isinstance(event, SignInLinkIssued)]
    sha256 = bytes.fromhex(request.arguments["token_sha256"])
    if at + LINK_LASTS not in issued:
        issue_link(owner, user_id, sha256, at, by=by)
    return {"is_changed": True}


def _suppliers_in(arguments: dict[str, str]) -> tuple[str, ...]:
    return tuple(filter(None, arguments.get("suppliers", "").split(",")))
