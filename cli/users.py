"""The verbs for users of the console: create, list, link, role, disable, enable, erase."""

from collections.abc import Iterator
from contextlib import contextmanager

import click
import msgspec

from cli.addresses import answer_of
from cli.language import N_, Confirmation, _, translated
from cli.operator import caused_by, open_owner_ledger, require_suppliers
from cli.output import ShortText, json_option, lines_option, print_result, text_of
from cli.service.settings import Settings
from embedded.folder import DataFolder
from eventstore.aggregates.user import UserRole
from eventstore.errors import IllegalTransition
from eventstore.log.ledger import Ledger
from projections.auxiliary.user_details import find_user_details
from projections.views.access_key import organisation_reach
from projections.views.console_user import UserListed, user_listed, users_page
from workers.operations import (
    MAX_NAME,
    ORGANISATION_NAME,
    ROLES,
    SignInLink,
    UserNotPossible,
    create_user,
    new_details,
    new_link,
    operate,
)

_PAGE = 1000
"""Users per query."""
_role = click.option("--role", type=click.Choice(ROLES), required=True, help="Role of the user.")
_email = click.argument("email")


@click.group()
def user() -> None:
    """Manage the users of the console."""


@user.command("create")
@_email
@click.option("--organisation", required=True, help="Organisation of the user.")
@_role
@click.option(
    "--supplier", "codes", multiple=True,
    help="Supplier that the user sees; repeatable; * for all. Required where the organisation has no key "
    "[default: suppliers of its keys]",
)  # fmt: skip
@click.option("--name", default="", type=ShortText(MAX_NAME), help="Name that others see [default: the e-mail address]")
@json_option
def create(email: str, organisation: str, role: UserRole, codes: tuple[str, ...], name: str, as_json: bool) -> None:
    """Create a user and print a sign-in link.

    The link signs EMAIL in to the console once, within 15 minutes. EMAIL must be new in the organisation. The same
    EMAIL in another organisation is another user with another password. If several users have the same EMAIL, other
    verbs need the id of the user.
    """
    if not ORGANISATION_NAME.match(organisation):
        raise click.BadParameter(_("An organisation's name must have 1 to 128 characters and no slash."))
    with _users() as ledger:
        suppliers = _suppliers(ledger, organisation, codes)
        details = new_details(email, name, organisation)
        user_id = details.user_id
        create_user(ledger, details, role, suppliers, by=caused_by())
        link = new_link(ledger, user_id, by=caused_by())
    visible = _("all suppliers") if "*" in suppliers else ", ".join(suppliers)
    sentence = _(
        "{email} is {user}: {role} of {organisation}, and sees {suppliers}.",
        email=email, user=user_id, role=role, organisation=organisation, suppliers=visible,
    )  # fmt: skip
    _print_link(sentence, link, as_json=as_json)


@user.command("list")
@lines_option
def list_all(as_json: bool) -> None:
    """List the users, without secrets."""
    listed: list[UserListed] = []
    with _users():
        while page := answer_of(users_page, "", listed[-1].user_id if listed else "", _PAGE):
            listed += page
    for user in sorted(listed, key=lambda user: (user.email.lower(), user.user_id)):
        fields = msgspec.to_builtins(user)
        print_result("  ".join(text_of(value) for value in fields.values()), fields, as_json=as_json)


@user.command("link")
@_email
@json_option
def link_again(email: str, as_json: bool) -> None:
    """Print another sign-in link of a user.

    The link signs EMAIL in once, within 15 minutes. Older links become invalid.
    """
    with _users() as ledger:
        link = new_link(ledger, _id_of(ledger, email), by=caused_by())
    _print_link(_("{email} may sign in.", email=email), link, as_json=as_json)


@user.command("role")
@_email
@_role
@click.option(
    "--supplier", "codes", multiple=True, help="Supplier that the user sees; repeatable; * for all [default: as now]"
)
@json_option
def change(email: str, role: UserRole, codes: tuple[str, ...], as_json: bool) -> None:
    """Change the role and suppliers of a user.

    The change applies to open sessions of EMAIL at once.
    """
    with _users() as ledger:
        user_id = _id_of(ledger, email)
        if codes:
            require_suppliers(ledger, *codes)
        else:
            if (listed_user := answer_of(user_listed, user_id)) is None:
                raise click.ClickException(
                    _(
                        "The suppliers of {user} cannot be read, so nothing was changed: --supplier must name them, "
                        "or * for all.",
                        user=user_id,
                    )
                )
            codes = tuple(listed_user.suppliers)
        values = {"user_id": user_id, "role": role, "suppliers": ",".join(codes)}
        done = operate(ledger, "user_role", values, by=caused_by())
    result = {"user_id": user_id, "role": role, "suppliers": codes, "is_changed": done}
    sentence = N_("{email} is {role}.") if done else N_("{email} is {role} already.")
    print_result(_(sentence, email=email, role=role), result, as_json=as_json)


@user.command("disable")
@_email
@json_option
def disable(email: str, as_json: bool) -> None:
    """Disable a user and end their sessions."""
    _change(email, "user_disable", N_("cannot sign in"), as_json=as_json)


@user.command("enable")
@_email
@json_option
def enable(email: str, as_json: bool) -> None:
    """Enable a user who was disabled."""
    _change(email, "user_enable", N_("can sign in"), as_json=as_json)


@user.command("erase")
@_email
@click.confirmation_option(
    cls=Confirmation, prompt=N_("Erase name, address, password and typed reasons permanently. Go on?")
)
@json_option
def erase(email: str, as_json: bool) -> None:
    """Erase a user's name, e-mail, password and reasons.

    Actions of EMAIL stay in the log under an id without a name.
    """
    with _users() as ledger:
        user_id = _id_of(ledger, email)
        operate(ledger, "user_erase", {"user_id": user_id}, by=caused_by())
    print_result(_("{user} is erased.", user=user_id), {"user_id": user_id, "is_erased": True}, as_json=as_json)


def _change(email: str, kind: str, state: str, *, as_json: bool) -> None:
    """Execute the operation, and print the user's new state."""
    with _users() as ledger:
        user_id = _id_of(ledger, email)
        is_changed = operate(ledger, kind, {"user_id": user_id}, by=caused_by())
    result = {"user_id": user_id, "is_changed": is_changed}
    sentence = f"{email} {_(state)}." if is_changed else _("{email} {state} already.", email=email, state=_(state))
    print_result(sentence, result, as_json=as_json)


def console_address(settings: Settings) -> str:
    """Return the address of the console from the settings, or else from the service on the data folder."""
    if settings.console.url:
        return settings.console.url
    connections = DataFolder(settings.data_dir).read_connections() or {}
    return connections.get("base_url", "http://127.0.0.1:8000")


@contextmanager
def _users() -> Iterator[Ledger]:
    """Open the log with the owner's rights. Refusals become ClickException with one sentence."""
    with open_owner_ledger() as ledger:
        try:
            yield ledger
        except UserNotPossible as refusal:
            raise click.ClickException(translated(refusal.sentence)) from refusal
        except IllegalTransition as refusal:
            sentence = _("The user is {status}: this cannot be done.", status=_(refusal.status))
            raise click.ClickException(sentence) from refusal


def _id_of(ledger: Ledger, email_or_id: str) -> str:
    with ledger.connection() as connection:
        users = find_user_details(connection, email_or_id)
    if len(users) > 1:
        names = ", ".join(
            _("{user} of {organisation}", user=user.user_id, organisation=text_of(user.organisation)) for user in users
        )
        raise click.ClickException(
            _("The id must be named where several users have the address: {users}.", users=names)
        )
    if not users:
        raise click.ClickException(_("There is no user with this address or id; see `importledger user list`."))
    return users[0].user_id


def _suppliers(ledger: Ledger, organisation: str, codes: tuple[str, ...]) -> tuple[str, ...]:
    """Return `codes`, or else the suppliers that the organisation's keys may access.

    Raises ClickException if there are no suppliers.
    """
    if codes:
        require_suppliers(ledger, *codes)
        return codes
    with ledger.connection() as connection:
        suppliers = organisation_reach(connection, organisation)
    if not suppliers:
        raise click.ClickException(
            _(
                "{organisation} has no key whose suppliers the user could see: --supplier must name them, "
                "or * for all.",
                organisation=organisation,
            )
        )
    return suppliers


def _print_link(sentence: str, link: SignInLink, *, as_json: bool) -> None:
    address = link.address(console_address(Settings.from_environment()))
    result = {"user_id": link.user_id, "link": address, "expires_at": text_of(link.expires_at)}
    until = _("This link signs in once, until {time}:", time=text_of(link.expires_at))
    print_result(f"{sentence}\n{until}\n{address}", result, as_json=as_json)
