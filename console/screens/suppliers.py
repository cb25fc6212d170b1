"""Suppliers, keys and users, with forms that do the same as the operators' verbs."""

from base64 import urlsafe_b64encode
from functools import partial
from typing import Any, TypeVar, cast

import msgspec
from starlette.responses import Response

from api.access.api_key import new_api_key
from api.description.problem_sentences import sentence_at
from api.endpoints.supplier_settings import SUPPLIER_SETTINGS, URL, Setting
from api.http.errors import not_found
from api.http.status_codes import ApiError
from console.access.people import OPERATORS, READERS
from console.access.requests import finished, reason_texts_of, request_task, requested_notice, write_typed
from console.access.visit import ROOT, Visit, action, page
from console.presentation.rendering import segment
from console.presentation.texts import N_
from console.screens.paging import page_of
from console.screens.tasks import ShownTask, shown_tasks
from eventstore.aggregates import supplier as suppliers
from eventstore.aggregates.organisation import Role
from eventstore.aggregates.owner_task import OwnerTaskKind
from eventstore.clock import now
from market.documents import is_root_below
from projections.auxiliary.sessions import LINK_LASTS, token_sha256
from projections.queries.supplier_overview import supplier_codes
from projections.retention.reverting import apart_from_reverts
from projections.views.access_key import KeyListed, count_keys, key_listed, keys_page
from projections.views.console_user import UserListed, count_users, user_listed, users_page
from projections.views.import_supplier import SupplierListed, supplier_listed, suppliers_page
from projections.views.owner_task import owner_tasks
from workers import operations as people
from workers.actors.documents import why_unreachable
from workers.actors.mail_text import test_message
from workers.actors.send_mails import NotSent, deliver, encoded_mail

Holder = TypeVar("Holder", KeyListed, UserListed)
AT_ONCE = 100
MAIL_TIMEOUT_S = 40.0
"""Longest wait for the mail server [seconds]."""
STATUSES = ("ongoing", "paused", "complete")
_CHANGES: dict[str, OwnerTaskKind] = {
    "role": "user_role",
    "disable": "user_disable",
    "enable": "user_enable",
    "sign-out": "user_sign_out",
    "erase": "user_erase",
}
_OUTDATED = N_(
    "Nothing was changed: another user has changed these values after you opened the page. "
    "Check them, and enter your change again."
)
_NO_PLACE = N_("The operator of the platform must first permit a URL for the documents of your organisation.")
_NOT_YOURS = N_("You may only grant access to suppliers that you can see.")


TABS = {"suppliers": N_("Suppliers"), "users": N_("Users"), "keys": N_("Keys")}
"""Parts of the administration, each a page."""


async def _listed(visit: Visit, kind: str, **values: Any) -> Response:
    """Return the page of a part of the administration."""
    totals: dict[str, int] = {}
    if visit.person.may(OPERATORS):
        own = (_own(visit), visit.person.reach)
        totals = {"users": await visit.read(count_users, *own), "keys": await visit.read(count_keys, *own)}
    totals["suppliers"] = len(await visit.read(supplier_codes, visit.person.listed_reach))
    return visit.render(
        f"{kind}.html",
        tabs=[
            (f"{ROOT}/{name}/", visit._(label), totals[name], name == kind)
            for name, label in TABS.items()
            if name in totals
        ],
        is_operator=visit.person.may(OPERATORS),
        is_everywhere=visit.person.reach is None,
        roles=people.ROLES,
        **values,
    )


def _own(visit: Visit) -> str:
    """Return the organisation whose keys and users the operator sees, "" for all."""
    return "" if visit.person.reach is None else visit.person.organisation


@page("/suppliers/", roles=READERS, nav=N_("Administration"))
async def supplier_list(visit: Visit) -> Response:
    """List the suppliers that the user sees."""
    query = partial(suppliers_page, suppliers=visit.person.reach)
    listed, more = await page_of(visit, "after", query, str, AT_ONCE, key_attribute="code", start="")
    return await _listed(visit, "suppliers", suppliers=listed, more=more)


@page("/users/", roles=OPERATORS)
async def user_list(visit: Visit) -> Response:
    """List the users that the operator may change."""
    query = partial(users_page, organisation=_own(visit), within=visit.person.reach)
    listed, more = await page_of(visit, "after", query, str, AT_ONCE, key_attribute="user_id", start="")
    return await _listed(visit, "users", users=listed, more=more)


@page("/keys/", roles=OPERATORS)
async def key_list(visit: Visit) -> Response:
    """List the keys that the operator may revoke, and operations on keys that have not succeeded."""
    query = partial(keys_page, organisation=_own(visit), within=visit.person.reach)
    listed, more = await page_of(visit, "after", query, str, AT_ONCE, key_attribute="key_id", start="")
    filters = {"organisation": _own(visit)} if _own(visit) else {}
    tasks = [
        task
        for kind in ("key_create", "key_revoke")
        for task in await visit.read(owner_tasks, kind, filters, 20)
        if (task.is_open or task.status == "FAILED") and await _may_see_key(visit, task.arguments)
    ]
    return await _listed(visit, "keys", keys=listed, more=more, tasks=tasks)


@page("/suppliers/{supplier}/", roles=READERS)
async def supplier_page(visit: Visit) -> Response:
    """Show a supplier's status and settings, and the forms that change them."""
    supplier = await _supplier(visit)
    return visit.render(
        "supplier.html",
        supplier=supplier,
        reason=(await reason_texts_of(visit, [supplier.reason]))[supplier.reason],
        settings=_settings(supplier),
        seen=_seen(_settings(supplier)),
        statuses=STATUSES,
        is_operator=visit.person.may(OPERATORS),
    )


@action("/suppliers/", roles=OPERATORS)
async def create_supplier(visit: Visit) -> Response:
    """Create a supplier."""
    code = visit.form.text("code")
    if not people.SUPPLIER_CODE.match(code):
        raise visit.refusal(400, N_("A supplier code must have 1 to 32 letters, digits, _ or -."))
    if not visit.person.may_touch(code):
        raise visit.refusal(403, _NOT_YOURS)
    done = await visit.execute(suppliers.stream_of(code), suppliers.CreateSupplier())
    notice = visit._("%(code)s was created.", code=code) if done else visit._("%(code)s exists already.", code=code)
    return visit.redirect(_address("suppliers", code), notice=notice)


@action("/suppliers/{supplier}/status/", roles=OPERATORS)
async def change_status(visit: Visit) -> Response:
    """Change the status of a supplier."""
    supplier = await _supplier(visit)
    status = visit.form.text("status")
    if status not in STATUSES:
        raise not_found()
    if status == "complete":
        visit.require_confirmation(supplier.code)
        if "complete" in visit.console.settings.four_eyes:
            await request_task(visit, "complete", {"supplier": supplier.code}, visit.reason())
            return visit.redirect(_address("suppliers", supplier.code), notice=requested_notice(visit, "complete"))
    reason = await write_typed(visit, visit.form.text("reason"), suppliers.stream_of(supplier.code))
    command = suppliers.ChangeSupplierStatus(status=cast(suppliers.SupplierStatus, status), reason=reason)
    write_rows = apart_from_reverts(supplier.code)
    await visit.execute(suppliers.stream_of(supplier.code), command, write_rows=write_rows)
    return visit.redirect(_address("suppliers", supplier.code), notice=visit._("The status was changed."))


@action("/suppliers/{supplier}/settings/", roles=OPERATORS)
async def change_settings(visit: Visit) -> Response:
    """Change the settings of a supplier."""
    supplier = await _supplier(visit)
    values: dict[str, Any] = {}
    for setting in SUPPLIER_SETTINGS.values():
        word = visit.form.text(setting.field)
        if setting.words and word not in setting.words:
            raise not_found()
        if not setting.words and not URL.match(word):
            raise visit.invalid(setting.field, N_("The setting must be empty or a URL, such as s3://bucket/path."))
        values[setting.field] = setting.words.get(word, word)
    shown = _settings(supplier)
    is_new = any(getattr(supplier, field) != value for field, value in values.items())
    if is_new and visit.is_outdated(_seen(shown)):
        return visit.redirect(_address("suppliers", supplier.code), notice=visit._(_OUTDATED))
    _refuse_foreign_places(visit, supplier, values)
    await visit.execute(suppliers.stream_of(supplier.code), suppliers.ConfigureSupplier(**values))
    notices = [visit._("The settings were changed.")]
    root = values.get("documents_root")
    if root and (reason := await visit.written(why_unreachable, root)):
        notices.append(visit._("The documents of accounts cannot be searched: %(reason)s.", reason=reason))
    if values["sends_customer_emails"] and not supplier.sends_customer_emails:
        notices.append(visit._("The system page shows whether the mail server can be used."))
    return visit.redirect(_address("suppliers", supplier.code), notice=" ".join(notices))


@action("/suppliers/{supplier}/test-mail/", roles=OPERATORS)
async def send_test_mail(visit: Visit) -> Response:
    """Send a test e-mail to the user, through the mail server for customers."""
    supplier, server = await _supplier(visit), visit.console.settings.mail_server
    if server is None:
        raise visit.refusal(400, N_("The console has no mail server: IMPORTLEDGER_SMTP_URL is not set for the api."))
    text = visit._("The mail server can send e-mails to customers of supplier %(code)s.", code=supplier.code)
    try:
        message = test_message(visit.person.email, subject=visit._("Test e-mail"), text=text, sender=server.sender)
        await visit.written_within(MAIL_TIMEOUT_S, deliver, server, encoded_mail(message))
    except NotSent as error:
        reason = sentence_at(error.code, "")
        raise visit.refusal(400, N_("The test e-mail was not sent. %(reason)s"), reason=reason) from error
    except ValueError as error:
        raise visit.refusal(400, N_("The service cannot send e-mails to your e-mail address.")) from error
    notice = visit._("The mail server has accepted a test e-mail to your address.")
    return visit.redirect(_address("suppliers", supplier.code), notice=notice)


def _refuse_foreign_places(visit: Visit, supplier: SupplierListed, values: dict[str, Any]) -> None:
    """Raise ApiError unless the platform allows the documents root to the user's organisation."""
    if values["documents_root"] == supplier.documents_root:
        del values["documents_root"]
    elif visit.person.reach is not None and values["documents_root"]:
        values["documents_organisation"] = visit.person.organisation
        places = visit.console.settings.places.get(visit.person.organisation, ())
        if not places:
            raise visit.refusal(400, _NO_PLACE)
        if not is_root_below(values["documents_root"], places):
            raise visit.refusal(
                400,
                N_("The place of documents must be one of these URLs, or a folder below one of these URLs: %(places)s"),
                places=", ".join(places),
            )


@action("/keys/", roles=OPERATORS)
async def create_key(visit: Visit) -> Response:
    """Request a key. The page of the key shows the key once, and says when it is valid."""
    organisation, role = _organisation(visit), visit.form.text("role")
    codes, rate = await _codes(visit), visit.form.text("rate") or "0"
    if role not in Role.__args__ or not (rate.isascii() and rate.isdigit() and len(rate) < 7):  # type: ignore[attr-defined]
        raise not_found()
    fresh = new_api_key(visit.form_secret("key id")[:8] + visit.form_secret("key"))
    await request_task(
        visit,
        "key_create",
        {
            "organisation": organisation,
            "key_id": fresh.key_id,
            "secret_sha256": fresh.secret_sha256,
            "role": role,
            "suppliers": ",".join(codes),
            "rate_per_s": rate,
        },
    )
    return visit.redirect(_address("keys", fresh.key_id), secret=fresh.api_key)


@page("/keys/{key_id}/", roles=OPERATORS)
async def one_key(visit: Visit) -> Response:
    """Show a key with its operations, and the form that revokes it."""
    key_id = visit.path("key_id")
    key = await visit.read(key_listed, key_id)
    tasks = await _tasks(visit, key, "key_id")
    return visit.render("key.html", key=key, key_id=key_id, tasks=tasks, secret=visit.secret())


@action("/keys/{key_id}/revoke/", roles=OPERATORS)
async def revoke_key(visit: Visit) -> Response:
    """Revoke a key. Its id must be typed."""
    key = await _key(visit)
    visit.require_confirmation(key.key_id)
    arguments = {"organisation": key.organisation, "key_id": key.key_id}
    await request_task(visit, "key_revoke", arguments, visit.form.text("reason"))
    return visit.redirect(_address("keys", key.key_id), notice=requested_notice(visit, "key_revoke"))


@action("/users/", roles=OPERATORS)
async def add_user(visit: Visit) -> Response:
    """Request a user and a sign-in link. The user's page shows the link once."""
    organisation, role = _organisation(visit), visit.form.text("role")
    codes = await _codes(visit)
    if role not in people.ROLES:
        raise not_found()
    arguments = {"organisation": organisation, "role": role, "suppliers": ",".join(codes)}
    try:
        details = people.new_details(visit.form.text("email"), visit.form.text("name"), organisation)
        details = msgspec.structs.replace(details, user_id=f"u_{visit.form_secret('user').hex()[:12]}")
        task = await request_task(
            visit,
            "user_create",
            arguments | {"user_id": details.user_id},
            write_details=lambda connection, events: people.insert_details(connection, details),
        )
    except people.UserNotPossible as refusal:
        raise ApiError(400, refusal.sentence) from refusal
    await finished(visit, task)
    return await _with_link(visit, details.user_id)


@page("/users/{user_id}/", roles=OPERATORS)
async def one_user(visit: Visit) -> Response:
    """Show a user with the operations about them, and the forms that change them."""
    user_id = visit.path("user_id")
    user = await visit.read(user_listed, user_id)
    tasks = await _tasks(visit, user, "user_id")
    return visit.render(
        "user.html",
        user=user,
        user_id=user_id,
        seen=_seen_role(user) if user else "",
        tasks=tasks,
        roles=people.ROLES,
        secret=visit.secret(),
    )


@action("/users/{user_id}/{change}/", roles=OPERATORS)
async def change_user(visit: Visit) -> Response:
    """Change a user, as the verbs of `importledger user` do."""
    user, change = await _user(visit), visit.path("change")
    arguments = {"user_id": user.user_id}
    match change:
        case "link":
            return await _with_link(visit, user.user_id)
        case "role":
            role = visit.form.text("role")
            if role not in people.ROLES:
                raise not_found()
            codes = await _codes(visit)
            if (role, codes) != (user.role, [*user.suppliers]) and visit.is_outdated(_seen_role(user)):
                return visit.redirect(_address("users", user.user_id), notice=visit._(_OUTDATED))
            arguments |= {"role": role, "suppliers": ",".join(codes)}
        case "erase":
            visit.require_confirmation(user.email)
        case "disable" | "enable" | "sign-out":
            pass
        case _:
            raise not_found()
    is_done = await finished(visit, await request_task(visit, _CHANGES[change], arguments))
    notice = visit._("The change was saved.") if is_done else requested_notice(visit, _CHANGES[change])
    return visit.redirect(_address("users", user.user_id), notice=notice)


async def _with_link(visit: Visit, user_id: str) -> Response:
    """Request a sign-in link for the user, and redirect to the page that shows it once."""
    token = urlsafe_b64encode(visit.form_secret("link")).decode().rstrip("=")
    arguments = {"user_id": user_id, "token_sha256": token_sha256(token).hex()}
    await finished(visit, await request_task(visit, "user_link", arguments))
    link = people.SignInLink(user_id=user_id, token=token, expires_at=now() + LINK_LASTS)
    base = visit.console.settings.url or visit.transport.origin
    return visit.redirect(_address("users", user_id), secret=link.address(base))


def _settings(supplier: SupplierListed) -> list[tuple[str, Setting, str]]:
    """Return name, setting and shown value of each setting."""
    return [(name, row, row.shown(getattr(supplier, row.field)) or "") for name, row in SUPPLIER_SETTINGS.items()]


def _seen(settings: list[tuple[str, Setting, str]]) -> str:
    return " ".join(value for _, _, value in settings)


def _seen_role(user: UserListed) -> str:
    return f"{user.role} {','.join(user.suppliers)}"


async def _tasks(visit: Visit, holder: Holder | None, name: str) -> list[ShownTask]:
    """Return the operations about a key or user.

    Raises ApiError 404 if the visitor may see neither the key or user nor an operation. A key or user that is not
    created yet has the organisation and suppliers of the request.
    """
    tasks = await visit.read(owner_tasks, "", {name: visit.path(name)}, 5)
    if holder is not None:
        _within(visit, holder)
    elif not any(_is_own(visit, task.arguments) for task in tasks):
        raise not_found()
    return await shown_tasks(visit, tasks)


def _is_own(visit: Visit, arguments: dict[str, str]) -> bool:
    """Return True if the user may see the key or user that was requested with these arguments."""
    person, codes = visit.person, set(arguments.get("suppliers", "").split(","))
    return person.reach is None or (arguments.get("organisation") == person.organisation and codes <= person.reach)


async def _may_see_key(visit: Visit, arguments: dict[str, str]) -> bool:
    """Return True if the user may see the key of an operation on keys of the user's organisation."""
    if visit.person.reach is None:
        return True
    key = await visit.read(key_listed, arguments["key_id"])
    return _is_own(visit, arguments) if key is None else set(key.suppliers) <= visit.person.reach


async def _supplier(visit: Visit) -> SupplierListed:
    supplier = await visit.read(supplier_listed, visit.path("supplier"))
    if supplier is None:
        raise not_found()
    return supplier


def _organisation(visit: Visit) -> str:
    """Return the organisation in the form. Users who do not see all suppliers may name only their own."""
    organisation = visit.form.text("organisation")
    if not people.ORGANISATION_NAME.match(organisation):
        raise visit.refusal(400, N_("The name of the organisation must have 1 to 128 characters and no slash."))
    if visit.person.reach is not None and organisation != visit.person.organisation:
        raise visit.refusal(403, _NOT_YOURS)
    return organisation


async def _key(visit: Visit) -> KeyListed:
    return _within(visit, await visit.read(key_listed, visit.path("key_id")))


async def _user(visit: Visit) -> UserListed:
    return _within(visit, await visit.read(user_listed, visit.path("user_id")))


def _within(visit: Visit, holder: Holder | None) -> Holder:
    """Return the key or user if the user of this visit may change it.

    Users who see only some suppliers get ApiError 404 for a key or user of another organisation, and 403 for a key or
    user with more suppliers.
    """
    person = visit.person
    if holder is None or (person.reach is not None and holder.organisation != person.organisation):
        raise not_found()
    if person.reach is not None and not set(holder.suppliers) <= person.reach:
        raise visit.refusal(403, _NOT_YOURS)
    return holder


async def _codes(visit: Visit) -> list[str]:
    """Return the supplier codes in the form. Raises ApiError unless each exists and the user sees it."""
    codes = list(dict.fromkeys(visit.form.text("suppliers").replace(",", " ").split()))
    if not codes or any(code != "*" and not people.SUPPLIER_CODE.match(code) for code in codes):
        raise visit.refusal(400, N_("A supplier code must have 1 to 32 letters, digits, _ or -."))
    if visit.person.reach is not None and not set(codes) <= visit.person.reach:
        raise visit.refusal(403, _NOT_YOURS)
    for code in codes:
        if code != "*" and await visit.services.directory.supplier(code) is None:
            raise visit.refusal(400, N_("No supplier has this code."))
    return codes


def _address(kind: str, name: str) -> str:
    return f"{ROOT}/{kind}/{segment(name)}/"
