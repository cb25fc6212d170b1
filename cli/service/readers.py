"""Readers of the values of settings. A reader returns the value of (variable's name, text) or raises SettingError."""

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args
from urllib.parse import parse_qs, urlsplit

import msgspec
import psycopg
from msgspec import Meta
from psycopg.conninfo import conninfo_to_dict

from console.settings import Network, OpenIdGrant
from eventstore.aggregates.owner_task import SECOND_PERSON, OwnerTaskKind
from eventstore.aggregates.user import UserRole
from eventstore.errors import OperatorError
from eventstore.log.connecting import guarded
from eventstore.proof.checkpoints import KeyNotUsable, LogKey
from market.documents import is_root_below

_ADDRESS = re.compile(r"[^@<>\r\n]+@[^@<>\s]+\Z|[^@<>\r\n]+<[^@<>\s]+@[^@<>\s]+>\Z")
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}")
_OBJECT_STORES = ("file", "s3", "gs", "az")


class SettingError(OperatorError):
    """A setting is missing or wrong; the message names it."""


def is_this_machine(host: str | None) -> bool:
    """Return True for `localhost` and loopback addresses, whose traffic does not leave the machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def url(name: str, value: str, schemes: tuple[str, ...] = ("http", "https")) -> str:
    shape = f"{name} must be a URL that begins with {' or '.join(f'{s}://' for s in schemes)}"
    try:
        scheme, _ = urlsplit(value).scheme, urlsplit(value).port
    except ValueError:
        raise SettingError(f"{shape} and has a host, and a port that is a number, if any.") from None
    if scheme not in schemes:
        raise SettingError(f"{shape}.")
    return value


def database_url(name: str, value: str) -> str:
    """Return the URL, which may name several hosts, with time-outs that end connections to a dead host."""
    if value.partition("://")[0] not in ("postgresql", "postgres"):
        raise SettingError(f"{name} must be a URL that begins with postgresql:// or postgres://.")
    try:
        parts, url = conninfo_to_dict(value), guarded(value)
    except psycopg.ProgrammingError:  # the error's message would show the value
        raise SettingError(f"{name} must be a URL such as postgresql://user:password@host:5432/database.") from None
    for part in ("sslrootcert", "sslcert", "sslkey", "sslcrl"):
        if parts.get(part) not in (None, "", "system"):
            refuse_missing(f"{name}: {part}", Path(str(parts[part])))
    return url


def redis_url(name: str, value: str) -> str:
    from workers.redis_address import is_redis_url  # imported here: the library is large, and most verbs need no Redis

    parts = urlsplit(url(name, value, ("redis", "rediss", "unix")))
    if not is_redis_url(value):
        raise SettingError(f"{name} must be a URL such as redis://host:6379/0 or unix:///path.sock.")
    # the library would use database 0 without an error
    if parts.scheme != "unix" and not re.fullmatch(r"/?[0-9]*", parts.path):
        raise SettingError(f"{name} must end with the number of a database, such as redis://host:6379/0, or without.")
    for part, values in parse_qs(parts.query).items():
        if part in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"):
            refuse_missing(f"{name}: {part}", Path(values[0]))
    return value


def console_url(name: str, value: str) -> str:
    return url(name, value).rstrip("/").removesuffix("/console")


def smtp_url(name: str, value: str) -> str:
    if not urlsplit(url(name, value, ("smtp", "smtps"))).hostname:
        raise SettingError(f"{name} must name a host, such as smtp://user:password@host:587.")
    return value


def issuer(name: str, value: str) -> str:
    parts = urlsplit(url(name, value))
    if parts.scheme == "http" and not is_this_machine(parts.hostname):
        raise SettingError(f"{name} must begin with https://, except for a provider on this machine.")
    return value


def checkpoints_url(name: str, value: str) -> str:
    parts = urlsplit(url(name, value, _OBJECT_STORES))
    if parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
        raise SettingError(f"{name} must have three slashes and an absolute path: file:///folder.")
    if parts.scheme != "file" and not parts.netloc:
        raise SettingError(f"{name} must name a bucket: {parts.scheme}://bucket or {parts.scheme}://bucket/folder.")
    return value


def four_eyes(name: str, value: str) -> frozenset[OwnerTaskKind | Literal["push"]]:
    """Read the actions that need a second person, and return the kinds of their tasks.

    `push` is the go-live of a book in the console, which is no task. A supplier that is set to complete is released, so
    `release` covers `complete`.
    """
    actions = [action.strip() for action in value.split(",")]
    known: dict[str, OwnerTaskKind | Literal["push"]] = {**SECOND_PERSON, "push": "push"}
    if unknown := [action for action in actions if action not in known]:
        raise SettingError(f"{name} must name actions out of {', '.join(known)}, and not {unknown[0]!r}.")
    covered = {"complete"} if "release" in actions else set()
    return frozenset(known[action] for action in {*actions, *covered})


def places(name: str, value: str) -> dict[str, tuple[str, ...]]:
    """Return the object-store URLs below which an organisation's documents may be, by organisation.

    The text is `ORGANISATION=URL,URL`, with semicolons between organisations.
    """
    places: dict[str, tuple[str, ...]] = {}
    for part in filter(str.strip, value.split(";")):
        organisation, _, urls = (word.strip() for word in part.partition("="))
        allowed = tuple(url.strip() for url in urls.split(",") if url.strip())
        if not (organisation and allowed and all(map(_is_place, allowed))):
            raise SettingError(
                f"{name} must be such as Nordwind Energie=s3://nordwind/documents,file:///srv/nordwind, with semicolons"
                " between several organisations."
            )
        if organisation in places:
            raise SettingError(f"{name} must name {organisation} once, with commas between its URLs.")
        places[organisation] = allowed
    return places


def _is_place(url: str) -> bool:
    return urlsplit(url).scheme in _OBJECT_STORES and is_root_below(url, [url])


def grants(name: str, value: str) -> tuple[tuple[str, OpenIdGrant], ...]:
    """Read `VALUE=ROLE:ORGANISATION:SUPPLIER,SUPPLIER`, with semicolons between grants, `*` for all suppliers."""
    grants = []
    for part in filter(str.strip, value.split(";")):
        claimed, _, words = (word.strip() for word in part.partition("="))
        role, organisation, suppliers = (*(word.strip() for word in words.split(":", 2)), "", "")[:3]
        codes = tuple(code.strip() for code in suppliers.split(",") if code.strip())
        if not claimed or role not in get_args(UserRole) or not codes:
            raise SettingError(
                f"{name} must be such as ledger-support=support:Nordwind Energie:NORDWIND, with semicolons between "
                f"several. Roles are {', '.join(get_args(UserRole))}; suppliers must be named, or * for all."
            )
        grant = OpenIdGrant(role=cast(UserRole, role), organisation=organisation or "Platform", suppliers=codes)
        grants.append((claimed, grant))
    return tuple(grants)


def networks(name: str, value: str) -> tuple[Network, ...]:
    try:
        return tuple(ipaddress.ip_network(part.strip()) for part in value.split(",") if part.strip())
    except ValueError:
        raise SettingError(
            f"{name} must be addresses or networks with commas between them: 10.0.0.5, fd00::/8."
        ) from None


def seal_key(name: str, value: str) -> str:
    try:
        LogKey.of(value, name)
    except KeyNotUsable as error:
        raise SettingError(str(error)) from None
    return value


def key(name: str, value: str) -> str:
    if len(value) < 32:
        raise SettingError(f"{name} must have at least 32 characters.")
    return value


def mail_address(name: str, value: str) -> str:
    if not _ADDRESS.match(value):
        raise SettingError(f"{name} must be an e-mail address, or a name and an address in angle brackets.")
    return value


def host(name: str, value: str) -> str:
    try:
        if not _HOST.fullmatch(value):
            ipaddress.IPv6Address(value)
    except ValueError:
        raise SettingError(
            f"{name} must be an address or a host name of this machine, such as 127.0.0.1 or ::."
        ) from None
    return value


def folder(name: str, value: str) -> Path:
    """Return the path of a folder, which need not exist yet."""
    path = Path(value)
    if path.exists() and not path.is_dir():
        raise SettingError(f"{name} must be a folder: {path} is a file.")
    return path


def refuse_missing(name: str, file: Path) -> None:
    try:
        with file.open("rb"):
            pass
    except OSError as error:
        raise SettingError(f"{name} must name a file that can be read: {file}: {error.strerror}.") from None


def any_text(name: str, value: str) -> str:
    return value


def converted(kind: Any, must_be: str) -> Callable[[str, str], Any]:
    """Return a reader of this type. `must_be` names the type in its error."""

    def read(name: str, value: str) -> Any:
        try:
            return msgspec.convert(value.strip().lower(), kind, strict=False)
        except msgspec.ValidationError:
            raise SettingError(f"{name} must be {must_be}, not {value!r}.") from None

    return read


def choice(*choices: str) -> Callable[[str, str], Any]:
    return converted(Literal[choices], f"one of {', '.join(choices)}")


def on_off(name: str, value: str) -> bool:
    is_on: bool = choice("on", "off")(name, value) == "on"
    return is_on


port = converted(Annotated[int, Meta(ge=1, le=65_535)], "a port from 1 to 65535")
niceness = converted(Annotated[int, Meta(ge=0, le=19)], "a whole number from 0 to 19")
seconds = converted(Annotated[float, Meta(ge=1, le=86_400)], "a number of seconds from 1 to 86400")
