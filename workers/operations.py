"""Operations that need the rights of the database's owner, each with the roles of users that may request it.

Verbs of the command line carry out an operation at once. Pages of the console request operations, and the relay carries
them out.
"""

import base64
import re
import secrets
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, get_args

import msgspec
from psycopg import Connection
from psycopg.errors import UniqueViolation

from eventstore.aggregates import organisation
from eventstore.aggregates import supplier as suppliers
from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.import_process import CancelImport, RetryImport
from eventstore.aggregates.import_process import stream_of as import_stream
from eventstore.aggregates.owner_task import COMMAND_LINE, KEY_PREFIX, OwnerTaskRequested
from eventstore.aggregates.user import (
    ChangeUserRole,
    CreateUser,
    DisableUser,
    EnableUser,
    EndSessions,
    EraseUser,
    IssueSignInLink,
    SignInLinkIssued,
    User,
    UserRole,
    stream_of,
)
from eventstore.clock import now
from eventstore.errors import OperatorError
from eventstore.events import Recorded
from eventstore.log.ledger import Decision, Ledger
from projections.auxiliary.sessions import LINK_LASTS, end_sessions, new_token, token_sha256, write_link
from projections.auxiliary.typed_reasons import delete_reasons_of_user
from projections.auxiliary.user_details import UserDetails, delete_user_details, write_user_details
from projections.retention.erasure import erase, erase_contacts, forget_attempts
from projections.retention.reverting import Selection, apart_from_reverts, release
from projections.views.import_status import SELECT_EXTERNALS
from schemas.sentence import Sentence

SUPPLIER_CODE = re.compile(r"[A-Za-z0-9_-]{1,32}\Z")
ORGANISATION_NAME = re.compile(r"[^/\s][^/]{0,127}\Z")
ROLES: tuple[UserRole, ...] = get_args(UserRole)
MAX_NAME = 100
IMPORTS_AT_ONCE = 500
"""Imports per transaction of a bulk action."""
MAX_PACKED = 10_000
"""External account numbers in one argument of a task. Longer lists are refused."""


class UserNotPossible(Exception):
    """The requested creation or change of a user is not possible. The message is the reason, in both languages."""

    def __init__(self, sentence: Sentence) -> None:
        super().__init__(str(sentence))
        self.sentence = sentence


class SignInLink(msgspec.Struct, frozen=True, kw_only=True):
    """Link that signs a user in once, and its expiry."""

    user_id: str
    token: str
    expires_at: datetime

    def address(self, base_url: str) -> str:
        return f"{base_url.rstrip('/')}/console/sign-in/{self.token}/"


def known_email(text: str) -> str:
    """Return the normalised address. Raises UserNotPossible if the text is no address."""
    # imported here: the library is large, and most verbs need no address
    from email_validator import EmailNotValidError, validate_email

    try:
        return validate_email(text.strip(), check_deliverability=False, test_environment=True).normalized
    except EmailNotValidError:
        raise UserNotPossible(Sentence("This is no e-mail address.", "Das ist keine E-Mail-Adresse.")) from None


def new_details(email: str, name: str, organisation: str) -> UserDetails:
    """Return the details of a new user with a new id. Raises UserNotPossible if `email` is not an e-mail address."""
    return UserDetails(user_id=new_user_id(), email=known_email(email), organisation=organisation, name=name[:MAX_NAME])


def new_user_id() -> str:
    return f"u_{secrets.token_hex(6)}"


def insert_details(connection: Connection[Any], details: UserDetails) -> None:
    """Write the details of a new user. Raises UserNotPossible if the organisation has a user with this address."""
    try:
        write_user_details(connection, details, now())
    except UniqueViolation:
        raise UserNotPossible(
            Sentence(
                "The organisation must not have another user with this address.",
                "Die Organisation darf keinen anderen Benutzer mit dieser Adresse haben.",
            )
        ) from None


def create_user(ledger: Ledger, details: UserDetails, role: UserRole, suppliers: Sequence[str], *, by: str) -> None:
    """Create a user with these details. Raises UserNotPossible."""
    command = CreateUser(organisation=details.organisation, role=role, suppliers=tuple(dict.fromkeys(suppliers)))
    change_user(ledger, details.user_id, command, by=by, write=lambda connection: insert_details(connection, details))


def change_user(
    ledger: Ledger,
    user_id: str,
    command: Command,
    *,
    by: str,
    write: Callable[[Connection[Any]], None] = lambda connection: None,
) -> bool:
    """Execute a command on a user.

    Return False if nothing changed. The same transaction runs `write`, and deletes sessions or details that the command
    ends.
    """

    def write_rows(connection: Connection[Any], events: Sequence[Recorded]) -> None:
        write(connection)
        if isinstance(command, DisableUser | EndSessions | EraseUser):
            end_sessions(connection, user_id)
        if isinstance(command, EraseUser):
            delete_user_details(connection, user_id)
            delete_reasons_of_user(connection, user_id)

    return ledger.execute(stream_of(user_id), command, at=now(), by=by, write_rows=write_rows) is not None


def new_link(ledger: Ledger, user_id: str, *, by: str) -> SignInLink:
    """Issue a link that signs the user in once within 15 minutes. Earlier links become invalid."""
    token, at = new_token(), now()
    _write_link(ledger, user_id, token_sha256(token), at, by)
    return SignInLink(user_id=user_id, token=token, expires_at=at + LINK_LASTS)


def _write_link(ledger: Ledger, user_id: str, sha256: bytes, at: datetime, by: str) -> None:
    command = IssueSignInLink(expires_at=at + LINK_LASTS)
    change_user(ledger, user_id, command, by=by, write=lambda connection: write_link(connection, sha256, user_id, at))


def user_of(ledger: Ledger, user_id: str) -> User:
    """Return the present state of the user in the log."""
    user: User = ledger.load([stream_of(user_id)])[stream_of(user_id)].state
    return user


def erase_person(ledger: Ledger, supplier: str, external: str, reason: str, *, by: str) -> bool:
    """Erase the person of an import, and refused attempts. Return False if the person was erased before."""
    done = erase(ledger, supplier, external, reason=reason, at=now(), by=by)
    forget_attempts(ledger, supplier, external)
    return done is not None


def selection_of(values: Mapping[str, str]) -> Selection:
    """Return the accounts of a task that reverts: a run, one external number, or several."""
    externals = (values["external"],) if "external" in values else unpacked(values.get("accounts", ""))
    return Selection(supplier=values["supplier"], run=values.get("run", ""), externals=externals)


def packed(externals: Sequence[str]) -> str:
    """Return external account numbers packed into one argument of a task. Raises TooManyAccounts."""
    if len(externals) > MAX_PACKED:
        raise TooManyAccounts
    return base64.b85encode(zlib.compress("\n".join(externals).encode())).decode()


def unpacked(argument: str) -> tuple[str, ...]:
    """Return the external account numbers of an argument; none for ""."""
    return tuple(zlib.decompress(base64.b85decode(argument)).decode().split("\n")) if argument else ()


class TooManyAccounts(OperatorError):
    """A task names too many accounts one by one."""

    def __str__(self) -> str:
        return f"A proposal must name at most {MAX_PACKED:,} accounts: divide the list, or choose a run."


def imports_of(ledger: Ledger, kind: str, values: Mapping[str, str]) -> list[str]:
    """Return the external numbers for a bulk retry or cancel: all failed or pending imports, or only those in a list of
    named accounts.
    """
    status, code = "ERRORED" if kind == "retry" else "PENDING", values.get("code")
    with ledger.connection() as connection:
        rows = connection.execute(SELECT_EXTERNALS, {"supplier": values["supplier"], "status": status, "code": code})
        found = [row["external_account_number"] for row in rows]
    named = frozenset(unpacked(values.get("accounts", "")))
    return [external for external in found if external in named] if named else found


def decide_imports(
    ledger: Ledger, supplier: str, externals: Sequence[str], command: Command, *, by: str
) -> Iterator[Decision]:
    """Execute the command on imports in batches, so that transactions stay short, and yield the outcomes."""
    for start in range(0, len(externals), IMPORTS_AT_ONCE):
        streams = [import_stream(supplier, external) for external in externals[start : start + IMPORTS_AT_ONCE]]
        yield from ledger.execute_many(dict.fromkeys(streams, command), at=now(), by=by)


def change_supplier_status(
    ledger: Ledger, code: str, status: suppliers.SupplierStatus, reason: str, *, by: str
) -> bool:
    """Change the status of a supplier. Return False if it has this status already."""
    command = suppliers.ChangeSupplierStatus(status=status, reason=reason)
    stream = suppliers.stream_of(code)
    return ledger.execute(stream, command, at=now(), by=by, write_rows=apart_from_reverts(code)) is not None


class Operation(msgspec.Struct, frozen=True):
    """Operation that users request: the command on a key or user, and the roles that may request it."""

    command: Callable[[Mapping[str, str], str], Command] | None = None
    """Function that makes the command from the arguments and the reason. None for an operation without a command."""
    roles: frozenset[str] = frozenset({"operator"})


def _create_key(values: Mapping[str, str], reason: str) -> Command:
    return organisation.CreateKey(
        key_id=values["key_id"],
        secret_sha256=values["secret_sha256"],
        role=msgspec.convert(values["role"], organisation.Role),
        suppliers=_suppliers_in(values),
        rate_per_s=int(values.get("rate_per_s", "0")),
    )


def _create_user(values: Mapping[str, str], reason: str) -> Command:
    role = msgspec.convert(values["role"], UserRole)
    return CreateUser(organisation=values["organisation"], role=role, suppliers=_suppliers_in(values))


def _change_role(values: Mapping[str, str], reason: str) -> Command:
    return ChangeUserRole(role=msgspec.convert(values["role"], UserRole), suppliers=_suppliers_in(values))


_READERS = frozenset({"auditor", "support", "operator"})
_DECIDERS = frozenset({"support", "operator"})
OPERATIONS = {
    "erase": Operation(),
    "revert": Operation(),
    "release": Operation(),
    "heal": Operation(),
    "projection_verify": Operation(roles=_READERS),
    "projection_rebuild": Operation(),
    "projection_switch": Operation(),
    "complete": Operation(),
    "retry": Operation(roles=_DECIDERS),
    "cancel": Operation(roles=_DECIDERS),
    "log_verify": Operation(roles=_READERS),
    "key_create": Operation(_create_key),
    "key_revoke": Operation(lambda values, reason: organisation.RevokeKey(key_id=values["key_id"], reason=reason)),
    "user_create": Operation(_create_user),
    "user_link": Operation(),
    "user_role": Operation(_change_role),
    "user_disable": Operation(lambda values, reason: DisableUser()),
    "user_enable": Operation(lambda values, reason: EnableUser()),
    "user_sign_out": Operation(lambda values, reason: EndSessions()),
    "user_erase": Operation(lambda values, reason: EraseUser()),
    "user_openid": Operation(),
}
"""Operations by kind of task."""


def operate(ledger: Ledger, kind: str, values: Mapping[str, str], reason: str = "", *, by: str) -> bool:
    """Execute the command of an operation. Return False if nothing changed."""
    make = OPERATIONS[kind].command
    assert make is not None, "the operation is a command"
    command = make(values, reason)
    if kind.startswith("key_"):
        return ledger.execute(organisation.stream_of(values["organisation"]), command, at=now(), by=by) is not None
    return change_user(ledger, values["user_id"], command, by=by)


def carry_out(ledger: Ledger, request: OwnerTaskRequested, by: str, subjects: Sequence[str] | None = None) -> bool:
    """Carry out a requested operation on persons, keys, users or imports. Return False if nothing changed.

    `subjects` are the imports of an approved retry or cancellation. An approved release without subjects does nothing.
    """
    kind, values = request.kind, request.arguments
    match kind:
        case "erase" if "participant" in values:
            return erase_contacts(ledger, values["participant"], reason=request.reason, at=now(), by=by) is not None
        case "erase":
            return erase_person(ledger, values["supplier"], values["external"], request.reason, by=by)
        case "release":
            return subjects != [] and release(ledger, values["supplier"], values.get("run", ""), request.reason, by=by)
        case "complete":
            return change_supplier_status(ledger, values["supplier"], "complete", request.reason, by=by)
        case "retry" | "cancel":
            command = (RetryImport if kind == "retry" else CancelImport)(reason=request.reason)
            chosen = imports_of(ledger, kind, values) if subjects is None else subjects
            outcomes = decide_imports(ledger, values["supplier"], chosen, command, by=by)
            return sum(outcome.recorded is not None for outcome in outcomes) > 0
        case "user_link":
            return _link(ledger, request, by)
        case "user_openid":  # the provider has authenticated a user, who may be new
            is_known = user_of(ledger, values["user_id"]).status != "unknown"
            return operate(ledger, "user_role" if is_known else "user_create", values, by="openid")
        case "user_create" if user_of(ledger, values["user_id"]).status != "unknown":
            return False
        case _:
            return operate(ledger, kind, values, request.reason, by=by)


def _link(ledger: Ledger, request: OwnerTaskRequested, by: str) -> bool:
    """Write the sign-in link, unless an earlier attempt has written a link, which may have been used."""
    user_id, at = request.arguments["user_id"], request.requested_at
    assert at is not None, "the MAC covers it"
    history = [recorded.event for recorded in ledger.history(stream_of(user_id))]
    issued = [event.expires_at for event in history if isinstance(event, SignInLinkIssued)]
    if at + LINK_LASTS in issued:
        return False
    _write_link(ledger, user_id, bytes.fromhex(request.arguments["token_sha256"]), at, by)
    return True


def may_request(ledger: Ledger, request: OwnerTaskRequested) -> bool:
    """Return True if the user's present role allows the operation, and the operation concerns only suppliers that the
    user may see.
    """
    if request.kind == "user_openid" or request.user.startswith(COMMAND_LINE):
        return True  # the api has checked the answer of the provider; the command line has the owner's rights
    if request.user.startswith(KEY_PREFIX):
        return request.kind == "heal" and _key_may_heal(ledger, request)
    user, values = user_of(ledger, request.user), request.arguments
    if user.status != "active" or user.role not in OPERATIONS[request.kind].roles:
        return False
    if "*" in user.suppliers:
        return True
    organisations, suppliers = {values.get("organisation", user.organisation)}, set(_suppliers_in(values))
    if request.kind == "key_revoke":
        suppliers = _suppliers_of_key(ledger, values["organisation"], values["key_id"])
    if request.kind.startswith("user_"):
        target = user_of(ledger, values["user_id"])
        if target.status != "unknown":
            organisations.add(target.organisation)
            suppliers |= set(target.suppliers)
    elif not request.kind.startswith("key_"):
        suppliers = {values.get("supplier", "*")}
    return organisations == {user.organisation} and suppliers <= set(user.suppliers)


def _key_may_heal(ledger: Ledger, request: OwnerTaskRequested) -> bool:
    """Return True if the key is valid now, and is an operator's key for the account's supplier."""
    key_id, stream = request.user.removeprefix(KEY_PREFIX), organisation.stream_of(request.arguments["organisation"])
    state = ledger.load([stream])[stream].state
    keys = [
        recorded.event for recorded in ledger.history(stream) if isinstance(recorded.event, organisation.KeyCreated)
    ]
    return any(
        key.key_id == key_id
        and key.role == "operator"
        and {"*", request.arguments["supplier"]}.intersection(key.suppliers)
        and isinstance(state, organisation.Organisation)
        and key_id in state.valid
        for key in keys
    )


def _suppliers_of_key(ledger: Ledger, name: str, key_id: str) -> set[str]:
    """Return the suppliers of a key of the organisation; no suppliers if the key does not exist."""
    events = [recorded.event for recorded in ledger.history(organisation.stream_of(name))]
    created = [event for event in events if isinstance(event, organisation.KeyCreated) and event.key_id == key_id]
    return {supplier for event in created for supplier in event.suppliers}


def forget_uncreated(ledger: Ledger, user_id: str) -> None:
    """Delete the details of a user whose creation was refused."""
    if user_of(ledger, user_id).status == "unknown":
        with ledger.connection() as connection:
            delete_user_details(connection, user_id)


def _suppliers_in(values: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, values.get("suppliers", "").split(","))))
