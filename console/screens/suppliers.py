"""Suppliers, organisations, keys and users: what the operators' verbs do, each with the command that does the same."""

from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import quote

from starlette.responses import Response

from api.access.api_key import new_api_key
from api.endpoints.supplier_settings import SUPPLIER_SETTINGS, URL, URLS
from api.http.errors import not_found
from api.http.status_codes import ApiError
from console.access.people import EVERYBODY, OPERATORS
from console.access.reasons import shown_reasons
from console.access.visit import ROOT, Visit, action, page
from console.presentation.texts import N_
from console.screens.paging import Pages, code_in, pages
from eventstore.aggregates import supplier as suppliers
from eventstore.aggregates.organisation import Role
from eventstore.aggregates.owner_task import OwnerTaskKind
from eventstore.clock import now
from market.documents import lies_below
from projections.unlogged.sessions import LINK_LASTS, new_token, token_sha256
from projections.views.access_key import KeyListed, key_listed, keys_page
from projections.views.console_user import UserListed, user_listed, users_page
from projections.views.import_supplier import SupplierListed, supplier_listed, suppliers_page
from projections.views.owner_task import owner_tasks
from schemas.sentence import Sentence
from workers import operations as people

HOME = f"{ROOT}/suppliers/"
AT_ONCE = 100
STATUSES = ("ongoing", "paused", "complete")
_CONFIRM = Sentence(
    "Type the name exactly as it is shown, to confirm.", "Zur Bestätigung bitte den Namen genau eintippen."
)
_NOT_YOURS = Sentence(
    "This reaches further than what you see yourself.", "Das reicht weiter als das, was Sie selbst sehen."
)
_TASKS: dict[str, OwnerTaskKind] = {
    "role": "user_role",
    "disable": "user_disable",
    "enable": "user_enable",
    "sign-out": "user_sign_out",
    "erase": "user_erase",
}
_NO_CODE = Sentence(
    "A supplier code has 1 to 32 letters, digits, _ or -.",
    "Ein Lieferantenkürzel hat 1 bis 32 Buchstaben, Ziffern, _ oder -.",
)
_NO_ORGANISATION = Sentence(
    "An organisation's name has 1 to 128 characters and no slash.",
    "Der Name einer Organisation hat 1 bis 128 Zeichen und keinen Schrägstrich.",
)
_NO_URL = Sentence(f"A URL is such as {URLS}.", f"Eine URL ist etwa {URLS}.")
_OTHER_PLACE = (
    "The documents root must be one of these places or below one: {places}",
    "Die Dokumentenablage muss einer dieser Orte sein oder darunter liegen: {places}",
)
_NO_PLACE = Sentence(
    "The platform's operator must allow your organisation a place for documents before you set one.",
    "Der Betreiber der Plattform muss Ihrer Organisation zuerst einen Ort für Dokumente freigeben.",
)
_UNKNOWN = Sentence("There is no such supplier.", "Diesen Lieferanten gibt es nicht.")


@page("/suppliers/", roles=EVERYBODY, nav=N_("Suppliers"))
async def everything(visit: Visit) -> Response:
    """The suppliers that the person sees; for operators their organisations' keys and users."""
    person = visit.person
    own = "" if person.reach is None else person.organisation
    is_operator = person.may(OPERATORS)
    listed = await visit.read(suppliers_page, person.reach, code_in(visit, "supplier-after"), AT_ONCE + 1)
    keys = (
        await visit.read(keys_page, own, code_in(visit, "key-after"), AT_ONCE + 1, person.reach) if is_operator else []
    )
    users = await visit.read(users_page, own, code_in(visit, "after"), AT_ONCE + 1, person.reach) if is_operator else []
    mine = {"organisation": own} if own else {}
    tasks = [
        task
        for kind in ("key_create", "key_revoke")
        for task in (await visit.read(owner_tasks, kind, mine, 20) if is_operator else [])
        if task.is_open or task.status == "FAILED"
    ]
    return visit.render(
        "suppliers.html",
        suppliers=listed[:AT_ONCE],
        keys=keys[:AT_ONCE],
        users=users[:AT_ONCE],
        tasks=tasks,
        more={
            "suppliers": _more(visit, "supplier-after", listed, "code"),
            "keys": _more(visit, "key-after", keys, "key_id"),
            "users": _more(visit, "after", users, "user_id"),
        },
        is_operator=is_operator,
        is_everywhere=person.reach is None,
        roles=people.ROLES,
    )


def _more(visit: Visit, name: str, rows: Sequence[Any], key: str) -> Pages:
    """The ways on from a page of one of the lists."""
    anchor = {"key-after": "keys", "after": "users"}.get(name, "")
    more = getattr(rows[AT_ONCE - 1], key) if len(rows) > AT_ONCE else None
    return pages(visit, name, more, anchor=anchor)


@page("/suppliers/{supplier}/", roles=EVERYBODY)
async def one_supplier(visit: Visit) -> Response:
    """A supplier's status and settings, and the forms that change them."""
    supplier = await _supplier(visit)
    return visit.render(
        "supplier.html",
        supplier=supplier,
        reason=(await shown_reasons(visit, [supplier.reason]))[supplier.reason],
        settings=_settings(supplier),
        statuses=STATUSES,
        is_operator=visit.person.may(OPERATORS),
    )


@action("/suppliers/", roles=OPERATORS)
async def create_supplier(visit: Visit) -> Response:
    """Set a supplier up."""
    code = visit.form.text("code")
    if not people.SUPPLIER_CODE.match(code):
        raise ApiError(400, _NO_CODE)
    if not visit.person.may_touch(code):
        raise ApiError(403, _NOT_YOURS)
    done = await visit.execute(suppliers.stream_of(code), suppliers.CreateSupplier())
    notice = visit._("%(code)s is set up.") if done else visit._("%(code)s exists already.")
    return visit.redirect(_address("suppliers", code), notice=notice % {"code": code})


@action("/suppliers/{supplier}/status/", roles=OPERATORS)
async def change_status(visit: Visit) -> Response:
    """Open, pause or close a supplier."""
    supplier = await _supplier(visit)
    status = visit.form.text("status")
    if status not in STATUSES:
        raise not_found()
    if status == "complete" and visit.form.text("confirm") != supplier.code:
        raise ApiError(400, _CONFIRM)
    reason = await visit.typed(visit.form.text("reason"), suppliers.stream_of(supplier.code))
    command = suppliers.ChangeSupplierStatus(status=cast(suppliers.SupplierStatus, status), reason=reason)
    await visit.execute(suppliers.stream_of(supplier.code), command)
    return visit.redirect(_address("suppliers", supplier.code), notice=visit._("The status is changed."))


@action("/suppliers/{supplier}/settings/", roles=OPERATORS)
async def change_settings(visit: Visit) -> Response:
    """Change how a supplier's accounts are treated."""
    supplier = await _supplier(visit)
    said: dict[str, Any] = {}
    for setting in SUPPLIER_SETTINGS.values():
        word = visit.form.text(setting.field)
        if setting.words and word not in setting.words:
            raise not_found()
        if not setting.words and not URL.match(word):
            raise ApiError(400, _NO_URL)
        said[setting.field] = setting.words.get(word, word)
    _refuse_foreign_places(visit, supplier, said)
    await visit.execute(suppliers.stream_of(supplier.code), suppliers.ConfigureSupplier(**said))
    return visit.redirect(_address("suppliers", supplier.code), notice=visit._("The settings are changed."))


def _refuse_foreign_places(visit: Visit, supplier: SupplierListed, said: dict[str, Any]) -> None:
    """Let operators of one organisation set a documents root only where the platform allows it to this organisation."""
    if said["documents_root"] == supplier.documents_root:
        del said["documents_root"]
    elif visit.person.reach is not None and said["documents_root"]:
        said["documents_organisation"] = visit.person.organisation
        places = visit.console.settings.places.get(visit.person.organisation, ())
        if not places:
            raise ApiError(400, _NO_PLACE)
        if not lies_below(said["documents_root"], places):
            raise ApiError(400, Sentence(*_OTHER_PLACE, places=", ".join(places)))


@action("/keys/", roles=OPERATORS)
async def create_key(visit: Visit) -> Response:
    """Issue a key: shown this once. The relay makes it valid, which takes a second or two."""
    organisation, role = visit.form.text("organisation"), visit.form.text("role")
    codes, rate = await _codes(visit), visit.form.text("rate") or "0"
    if not people.ORGANISATION_NAME.match(organisation):
        raise ApiError(400, _NO_ORGANISATION)
    if role not in Role.__args__ or not (rate.isascii() and rate.isdigit() and len(rate) < 7):  # type: ignore[attr-defined]
        raise not_found()
    if visit.person.reach is not None and organisation != visit.person.organisation:
        raise ApiError(403, _NOT_YOURS)
    fresh = new_api_key()
    await visit.ask(
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
    return visit.render("secret.html", kind="key", secret=fresh.api_key, name=organisation, expires_at=None)


@page("/keys/{key_id}/", roles=OPERATORS)
async def one_key(visit: Visit) -> Response:
    """A key, and the form that revokes it."""
    return visit.render("key.html", key=await _key(visit))


@action("/keys/{key_id}/revoke/", roles=OPERATORS)
async def revoke_key(visit: Visit) -> Response:
    """Void a key, once its id was typed."""
    key = await _key(visit)
    if visit.form.text("confirm") != key.key_id:
        raise ApiError(400, _CONFIRM)
    arguments = {"organisation": key.organisation, "key_id": key.key_id}
    await visit.ask("key_revoke", arguments, visit.form.text("reason"))
    return visit.redirect(HOME, notice=visit._("The key is being revoked: that takes a second or two."))


@action("/users/", roles=OPERATORS)
async def add_user(visit: Visit) -> Response:
    """Let somebody sign in, and show the link that does so once."""
    organisation, role = visit.form.text("organisation"), visit.form.text("role")
    codes = await _codes(visit)
    if not people.ORGANISATION_NAME.match(organisation):
        raise ApiError(400, _NO_ORGANISATION)
    if role not in people.ROLES:
        raise not_found()
    if visit.person.reach is not None and organisation != visit.person.organisation:
        raise ApiError(403, _NOT_YOURS)
    arguments = {"organisation": organisation, "role": role, "suppliers": ",".join(codes)}
    try:
        details = people.new_details(visit.form.text("email"), visit.form.text("name"), organisation)
        task = await visit.ask(
            "user_create",
            arguments | {"user_id": details.user_id},
            also=lambda connection, events: people.keep_details(connection, details),
        )
    except people.UserNotPossible as refusal:
        raise ApiError(400, refusal.sentence) from refusal
    await visit.done(task)
    return await _with_link(visit, details.user_id, details.email)


@page("/users/{user_id}/", roles=OPERATORS)
async def one_user(visit: Visit) -> Response:
    """A user, and the forms that change what they may do."""
    user = await _user(visit)
    return visit.render("user.html", user=user, roles=people.ROLES, is_self=user.user_id == visit.person.user_id)


@action("/users/{user_id}/{what}/", roles=OPERATORS)
async def change_user(visit: Visit) -> Response:
    """Do one of the things that the verbs of `importledger user` do."""
    user, what = await _user(visit), visit.path("what")
    arguments = {"user_id": user.user_id}
    match what:
        case "link":
            return await _with_link(visit, user.user_id, user.email)
        case "role":
            role = visit.form.text("role")
            if role not in people.ROLES:
                raise not_found()
            arguments |= {"role": role, "suppliers": ",".join(await _codes(visit))}
        case "erase":
            if visit.form.text("confirm") != user.email:
                raise ApiError(400, _CONFIRM)
        case "disable" | "enable" | "sign-out":
            pass
        case _:
            raise not_found()
    await visit.done(await visit.ask(_TASKS[what], arguments))
    if what == "erase":
        return visit.redirect(HOME, notice=visit._("The user is nobody any more."))
    return visit.redirect(_address("users", user.user_id), notice=visit._("That is done."))


async def _with_link(visit: Visit, user_id: str, name: str) -> Response:
    """A page with a fresh link, shown this once."""
    token, at = new_token(), now()
    await visit.done(await visit.ask("user_link", {"user_id": user_id, "token_sha256": token_sha256(token).hex()}))
    link = people.SignInLink(user_id=user_id, token=token, expires_at=at + LINK_LASTS)
    base = visit.console.settings.url or visit.transport.origin
    return visit.render("secret.html", kind="link", secret=link.address(base), name=name, expires_at=link.expires_at)


async def _supplier(visit: Visit) -> SupplierListed:
    supplier = await visit.read(supplier_listed, visit.path("supplier"))
    if supplier is None:
        raise not_found()
    return supplier


async def _key(visit: Visit) -> KeyListed:
    key = await visit.read(key_listed, visit.path("key_id"))
    person = visit.person
    if key is None or (person.reach is not None and key.organisation != person.organisation):
        raise not_found()
    if person.reach is not None and not set(key.suppliers) <= person.reach:
        raise ApiError(403, _NOT_YOURS)
    return key


async def _user(visit: Visit) -> UserListed:
    """A user whom the person may change: of their own organisation where they do not see all, and not beyond that."""
    user = await visit.read(user_listed, visit.path("user_id"))
    person = visit.person
    if user is None or (person.reach is not None and user.organisation != person.organisation):
        raise not_found()
    if person.reach is not None and not set(user.suppliers) <= person.reach:
        raise ApiError(403, _NOT_YOURS)
    return user


async def _codes(visit: Visit) -> list[str]:
    """The suppliers that a form names, which must be there, and which the person must see themselves."""
    codes = list(dict.fromkeys(visit.form.text("suppliers").replace(",", " ").split()))
    if not codes or any(code != "*" and not people.SUPPLIER_CODE.match(code) for code in codes):
        raise ApiError(400, _NO_CODE)
    if visit.person.reach is not None and not set(codes) <= visit.person.reach:
        raise ApiError(403, _NOT_YOURS)
    for code in codes:
        if code != "*" and await visit.services.directory.supplier(code) is None:
            raise ApiError(400, _UNKNOWN)
    return codes


def _settings(supplier: SupplierListed) -> list[dict[str, Any]]:
    """Each setting by its name on the command line, with what may be chosen."""
    return [
        {
            "name": name,
            "field": setting.field,
            "value": setting.shown(getattr(supplier, setting.field)),
            "choices": list(setting.words),
        }
        for name, setting in SUPPLIER_SETTINGS.items()
    ]


def _address(kind: str, name: str) -> str:
    return f"{ROOT}/{kind}/{quote(name, safe='')}/"


SCREENS = (
    everything,
    one_supplier,
    create_supplier,
    change_status,
    change_settings,
    create_key,
    one_key,
    revoke_key,
    add_user,
    one_user,
    change_user,
)
