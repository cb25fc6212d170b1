"""The verbs `supplier` and `key` of operators. They write to the log directly, not over HTTP."""

import contextlib
import getpass
import json
import re
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from api.access.api_key import new_api_key
from api.endpoints.supplier_settings import SUPPLIER_SETTINGS, URL, URLS
from cli.addresses import admin_url
from cli.known import reason_texts, require_supplier, suggestion
from cli.language import N_, _, translated
from cli.output import ShortText, json_option, lines_option, print_line, print_result, text_of
from cli.proposing import is_proposed
from cli.service.settings import SettingError
from eventstore.aggregates import organisation
from eventstore.aggregates import supplier as suppliers
from eventstore.clock import now
from eventstore.errors import IllegalTransition
from eventstore.log.ledger import Ledger
from projections import INLINE
from projections.auxiliary.typed_reasons import MAX_REASON
from projections.views.access_key import SELECT_KEYS
from projections.views.import_supplier import SELECT_SUPPLIERS
from workers.operations import ORGANISATION_NAME, SUPPLIER_CODE, change_supplier_status, operate

_STATES: dict[suppliers.SupplierStatus, str] = {
    "ongoing": N_("is ongoing"),
    "paused": N_("is paused"),
    "complete": N_("is complete"),
}
RATE = re.compile(r"([1-9][0-9]{0,4}|100000)/s\Z")


reason_option = click.option(
    "--reason", default="", type=ShortText(MAX_REASON), help="Reason, kept in the log permanently: no personal data."
)


@contextlib.contextmanager
def open_ledger() -> Iterator[Ledger]:
    """Open the log with the rights of the database's owner, or of DATABASE_URL if no owner is configured."""
    ledger = Ledger(admin_url(), views=INLINE)
    try:
        yield ledger
    finally:
        ledger.close()


@contextlib.contextmanager
def open_owner_ledger() -> Iterator[Ledger]:
    """Open the log for changes of keys and users. Raises SettingError without the rights of the database's owner."""
    with open_ledger() as ledger:
        with ledger.connection() as connection:
            row = connection.execute("SELECT has_table_privilege('access_key', 'UPDATE') AS may").fetchone()
        if not (row and row["may"]):
            raise SettingError(
                _(
                    "Changes of keys and users need the rights of the database's owner. Set DATABASE_ADMIN_URL as well "
                    "as DATABASE_URL."
                )
            )
        yield ledger


def caused_by() -> str:
    return f"operator:{getpass.getuser()}"


@click.group()
def supplier() -> None:
    """Manage import suppliers."""


@supplier.command("create")
@click.argument("code")
@json_option
def create_supplier(code: str, as_json: bool) -> None:
    """Create an import supplier, which accepts accounts at once."""
    if not SUPPLIER_CODE.match(code):
        raise click.BadParameter(_("A supplier code must have 1 to 32 letters, digits, _ or -."))
    with open_ledger() as ledger:
        done = ledger.execute(suppliers.stream_of(code), suppliers.CreateSupplier(), at=now(), by=caused_by())
    sentence = _("{code} is set up.", code=code) if done else _("{code} exists already.", code=code)
    print_result(sentence, {"code": code, "is_new": done is not None}, as_json=as_json)


@supplier.command("status")
@click.argument("code")
@click.argument("status", type=click.Choice(["ongoing", "paused", "complete"]))
@reason_option
@json_option
def change_status(code: str, status: suppliers.SupplierStatus, reason: str, as_json: bool) -> None:
    """Open, pause or close an import supplier.

    The new status of CODE applies on every server within a second. `paused` also holds pending imports until the
    supplier is `ongoing` again; `complete` lets accepted imports finish, and releases the accounts.
    """
    with open_ledger() as ledger:
        require_suppliers(ledger, code)
        arguments = {"supplier": code}
        if status == "complete" and is_proposed(ledger, "complete", arguments, reason, by=caused_by(), as_json=as_json):
            return
        done = change_supplier_status(ledger, code, status, reason, by=caused_by())
    state = _(_STATES[status])
    sentence = f"{code} {state}." if done else _("{code} {state} already.", code=code, state=state)
    print_result(sentence, {"code": code, "status": status, "is_changed": done}, as_json=as_json)


@supplier.command("list")
@lines_option
def list_suppliers(as_json: bool) -> None:
    """List the import suppliers."""
    rows = _rows(SELECT_SUPPLIERS)
    texts = reason_texts(row["reason"] for row in rows)
    rows = [row | {"reason": texts[row["reason"]]} for row in rows]
    _print(rows, ("code", "status", "reason", "modified_at"), as_json=as_json)


_SETTINGS_HELP = (
    "Change the settings of a supplier.\n\nThe settings apply to accounts of CODE on every server within a second: "
    + ", ".join(f"{name}={'|'.join(setting.words) or 'URL'}" for name, setting in SUPPLIER_SETTINGS.items())
    + ". A URL begins with s3://, gs://, az:// or file:///. NAME= without a value clears a setting."
)


@supplier.command("set", help=_SETTINGS_HELP)
@click.argument("code")
@click.argument("settings", nargs=-1, required=True, metavar="NAME=VALUE…")
@json_option
def set_supplier(code: str, settings: tuple[str, ...], as_json: bool) -> None:
    command = suppliers.ConfigureSupplier(**dict(_parsed_setting(text) for text in settings))
    with open_ledger() as ledger:
        require_suppliers(ledger, code)
        try:
            done = ledger.execute(suppliers.stream_of(code), command, at=now(), by=caused_by())
        except suppliers.DocumentsRootMissing as refusal:
            raise click.ClickException(translated(refusal)) from refusal
        state = ledger.load([suppliers.stream_of(code)])[suppliers.stream_of(code)].state
        root = state.documents_root if state.documents_check != "off" else ""
    sentence = _("{code} is set.", code=code) if done else _("{code} had these settings already.", code=code)
    print_result(sentence, {"code": code, "is_changed": done is not None}, as_json=as_json)
    # imported here: the module imports the market's rules, which take a while to compile
    from workers.actors.documents import why_unreachable

    if root and (why := why_unreachable(root, timeout_s=3.0)):
        sentence = _("The documents root {root} cannot be reached from here: {why}.", root=root, why=translated(why))
        print_line(sentence, err=True)


def _parsed_setting(text: str) -> tuple[str, Any]:
    """Return the field and the value in the log for NAME=VALUE. NAME= sets the default. Raises BadParameter."""
    name, sign, word = text.partition("=")
    if name not in SUPPLIER_SETTINGS:
        raise click.BadParameter(
            _(
                "{given!r}: there is no setting {name!r}, only {names}.",
                given=text,
                name=name,
                names=", ".join(SUPPLIER_SETTINGS),
            )
        )
    if not sign:
        raise click.BadParameter(
            _("{given!r} has no value: write {name}=VALUE, or {name}= to clear it.", given=text, name=name)
        )
    setting = SUPPLIER_SETTINGS[name]
    if not word:
        return setting.field, setting.default
    if not setting.words:
        if not URL.match(word):
            sentence = _("{given!r}: {name}= takes {urls}.", given=text, name=name, urls=URLS)
            raise click.BadParameter(sentence)
        return setting.field, word
    if word not in setting.words:
        words = ", ".join(f"{name}={allowed}" for allowed in setting.words)
        raise click.BadParameter(_("{given!r} is none of {words}.", given=text, words=words))
    return setting.field, setting.words[word]


@supplier.command("show")
@click.argument("code")
@json_option
def show_supplier(code: str, as_json: bool) -> None:
    """Show the status and settings of a supplier."""
    with open_ledger() as ledger:
        require_suppliers(ledger, code)
    rows = [row for row in _rows(SELECT_SUPPLIERS) if row["code"] == code]
    reason = rows[0]["reason"]
    shown = _shown(rows[0] | {"reason": reason_texts([reason])[reason]})
    if as_json:
        print_line(msgspec.json.encode(shown))
    else:
        for name, value in shown.items():
            print_line(f"{name} {text_of(value)}")


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return a supplier with its settings, in the names and words of `supplier set`; None for an empty value."""
    settings = {name: setting.shown(row[setting.field]) for name, setting in SUPPLIER_SETTINGS.items()}
    identity = {name: row[name] for name in ("code", "status", "reason")}
    times = {name: row[name] for name in ("created_at", "modified_at")}
    return {name: value if value != "" else None for name, value in (identity | settings | times).items()}


@click.group()
def key() -> None:
    """Manage the API keys of organisations."""


@key.command("create")
@click.argument("name", metavar="ORGANISATION")
@click.option("--supplier", "codes", multiple=True, required=True, help="Supplier of the key; repeatable; * for all.")
@click.option(
    "--role", type=click.Choice(["importer", "auditor", "support", "operator"]), default="importer", show_default=True,
    help="Role of the key.",
)  # fmt: skip
@click.option("--rate", metavar="N/s", help="Requests a second [default: unlimited]")
@click.option("--json", "as_json", is_flag=True, help='Output as {"api_key": …}.')
def create_key(name: str, codes: tuple[str, ...], role: organisation.Role, rate: str | None, as_json: bool) -> None:
    """Create a key and print it once.

    The service stores only a digest of the key, so it cannot show the key again. All api processes together count the
    requests of the key in Redis. While Redis does not answer, each process applies the rate separately.
    """
    if not ORGANISATION_NAME.match(name):
        raise click.BadParameter(_("An organisation's name must have 1 to 128 characters and no slash."))
    for code in codes:
        if code != "*" and not SUPPLIER_CODE.match(code):
            raise click.BadParameter(_("{code!r} must be a supplier code.", code=code))
    if rate is not None and not RATE.match(rate):
        sentence = _("A rate must be a whole number of requests a second from 1 to 100000, such as 50/s.")
        raise click.BadParameter(sentence)
    fresh = new_api_key()
    with open_owner_ledger() as ledger:
        require_suppliers(ledger, *codes)
        values = {"organisation": name, "key_id": fresh.key_id, "secret_sha256": fresh.secret_sha256, "role": role}
        values |= {"suppliers": ",".join(codes), "rate_per_s": (rate or "0").removesuffix("/s")}
        operate(ledger, "key_create", values, by=caused_by())
    print_line(json.dumps({"api_key": fresh.api_key}) if as_json else fresh.api_key)


@key.command("list")
@lines_option
def list_keys(as_json: bool) -> None:
    """List all keys, without secrets."""
    columns = ("key_id", "organisation", "role", "suppliers", "rate_per_s", "created_at", "revoked_at")
    _print(_rows(SELECT_KEYS, 0), columns, as_json=as_json)


@key.command("revoke")
@click.argument("key_id", metavar="ID")
@reason_option
@json_option
def revoke_key(key_id: str, reason: str, as_json: bool) -> None:
    """Revoke a key and every token made with it.

    Every server refuses the key with this ID within a second.
    """
    with _owner_of(key_id) as (ledger, name):
        done = operate(ledger, "key_revoke", {"organisation": name, "key_id": key_id}, reason, by=caused_by())
    sentence = _("{key} is revoked.", key=key_id) if done else _("{key} was revoked already.", key=key_id)
    print_result(sentence, {"key_id": key_id, "is_changed": done}, as_json=as_json)


@key.command("confirm")
@click.argument("key_ids", nargs=-1, required=True, metavar="ID…")
@json_option
def confirm_keys(key_ids: tuple[str, ...], as_json: bool) -> None:
    """Confirm keys that a restore holds back.

    Confirm only keys that were not revoked after the backup.
    """
    for key_id in key_ids:
        with _owner_of(key_id) as (ledger, name):
            command = organisation.ConfirmKey(key_id=key_id)
            done = ledger.execute(organisation.stream_of(name), command, at=now(), by=caused_by()) is not None
        sentence = _("{key} is valid.", key=key_id) if done else _("{key} was valid already.", key=key_id)
        print_result(sentence, {"key_id": key_id, "is_changed": done}, as_json=as_json)


@contextlib.contextmanager
def _owner_of(key_id: str) -> Iterator[tuple[Ledger, str]]:
    """Open the log with the owner's rights, and yield it with the organisation of a key.

    Raises ClickException for an unknown key, and for a key that the block finds revoked.
    """
    owners = {row["key_id"]: row["organisation"] for row in _rows(SELECT_KEYS, 0)}
    if key_id not in owners:
        hint = suggestion(key_id, owners)
        raise click.ClickException(
            _("There is no key {key}{hint}; see `importledger key list`.", key=key_id, hint=hint)
        )
    with open_owner_ledger() as ledger:
        try:
            yield ledger, owners[key_id]
        except IllegalTransition as refusal:
            raise click.ClickException(_("{key} was revoked: create another key.", key=key_id)) from refusal


def require_suppliers(ledger: Ledger, *codes: str) -> None:
    """Raise NotFound if a code belongs to no supplier; * stands for all suppliers."""
    with ledger.connection() as connection:
        for code in codes:
            if code != "*":
                require_supplier(connection, code)


def _rows(query: str, *parameters: int) -> list[dict[str, Any]]:
    with open_ledger() as ledger, ledger.connection() as connection:
        return list(connection.execute(query.encode(), parameters))


def _print(rows: list[dict[str, Any]], columns: tuple[str, ...], *, as_json: bool) -> None:
    for row in rows:
        shown = {column: row[column] if row[column] != "" else None for column in columns}
        print_result("  ".join(text_of(value) for value in shown.values()), shown, as_json=as_json)
