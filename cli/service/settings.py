"""The settings of a process: read once from the environment, at its entry point."""

import ipaddress
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args
from urllib.parse import parse_qs, urlsplit

import msgspec
import psycopg
from msgspec import Meta
from psycopg.conninfo import conninfo_to_dict

from cli.service.setting_names import SECRETS, unknown_setting
from console.settings import ConsoleSettings, Network, OpenIdGrant, OpenIdSettings
from eventstore.aggregates.user import UserRole
from eventstore.log.connecting import guarded
from eventstore.operations.fitness import Durability
from eventstore.proof.checkpoints import KeyNotUsable, LogKey
from market.documents import lies_below
from redaction.shown import cleaned

_POSTGRES = ("postgresql", "postgres")
_REDIS = ("redis", "rediss", "unix")
_ADDRESS = re.compile(r"[^@<>\r\n]+@[^@<>\s]+\Z|[^@<>\r\n]+<[^@<>\s]+@[^@<>\s]+>\Z")
_OBJECT_STORES = ("file", "s3", "gs", "az")
_SMTP = ("smtp", "smtps")
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}")
_OTLP_FILES = tuple(
    f"OTEL_EXPORTER_OTLP_{kind}{name}"
    for kind in ("", "TRACES_")
    for name in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY")
)
_LEVELS = ("debug", "info", "warning", "error")
_Port = Annotated[int, Meta(ge=1, le=65_535)]
_Niceness = Annotated[int, Meta(ge=0, le=19)]
_Interval = Annotated[float, Meta(ge=1, le=86_400)]
_SECRET_MAX = 10_000


class SettingError(Exception):
    """A setting is missing or wrong; the message names it."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """One value per environment variable; None where an embedded default applies."""

    data_dir: Path
    database_url: str | None
    database_admin_url: str | None
    redis_url: str | None
    token_key: str | None
    request_key: str | None
    sealing_key: str | None
    checkpoints_url: str | None
    seal_every_s: float
    """How often the log is sealed."""
    smtp_url: str | None
    is_smtp_plain: bool
    """E-mails may go to a mail server on this machine without TLS."""
    mail_from: str | None
    is_sandbox: bool
    """Whether endings of account numbers ask for outcomes: for importers who try their error handling."""
    niceness: int
    """How much relay and workers leave the processor to what takes accounts in: from 0, not at all, to 19."""
    durability: Durability
    """`replicated`: an acknowledged import lies on a standby as well."""
    log_level: str
    log_format: str
    """`auto`: text on a terminal, JSON elsewhere."""
    health_port: int | None
    """Where a relay or a worker answers supervisors; nowhere unless it is said."""
    metrics_host: str
    metrics_port: int | None
    """Where `/metrics` is; None: on the public port of an api process."""
    metrics_folder: Path | None
    """Where processes that are shown together write what they count (the Prometheus client's own variable)."""
    traces: Literal["none", "otlp", "console"]
    """Where spans go, by OpenTelemetry's own variables."""
    has_sampler: bool
    """Whether OTEL_TRACES_SAMPLER says which requests are traced."""
    service_name: str | None
    """What OpenTelemetry calls the service, unless its variables say so."""
    role_name: str | None
    """For a process below a supervisor: what it is called, such as api-1."""
    roles_file: Path | None
    """For an api process below a supervisor: the file in which the supervisor names the roles that keep dying."""
    console: ConsoleSettings

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """Raises SettingError, which names the variable."""
        if (unknown := unknown_setting(environment)) is not None:
            raise SettingError(unknown)
        environment = _with_secrets(environment)
        return cls(
            data_dir=_folder(environment, "IMPORTLEDGER_DATA_DIR") or Path(_default_data_dir(environment)),
            database_url=_database_url(environment, "DATABASE_URL"),
            database_admin_url=_database_url(environment, "DATABASE_ADMIN_URL"),
            redis_url=_redis_url(environment),
            token_key=_key(environment, "IMPORTLEDGER_TOKEN_KEY"),
            request_key=_key(environment, "IMPORTLEDGER_REQUEST_KEY"),
            sealing_key=_sealing_key(environment),
            checkpoints_url=_checkpoints_url(environment),
            seal_every_s=_interval(environment, "IMPORTLEDGER_SEAL_EVERY_S", "60"),
            smtp_url=_smtp_url(environment),
            is_smtp_plain=_choice(environment, "IMPORTLEDGER_SMTP_PLAINTEXT", ("on", "off"), "off") == "on",
            mail_from=_address(environment, "IMPORTLEDGER_MAIL_FROM"),
            is_sandbox=_choice(environment, "IMPORTLEDGER_SANDBOX", ("on", "off"), "off") == "on",
            niceness=_converted(environment, "IMPORTLEDGER_NICENESS", _Niceness, "19", "a whole number from 0 to 19"),
            durability=cast(
                Durability, _choice(environment, "IMPORTLEDGER_DURABILITY", ("local", "replicated"), "local")
            ),
            log_level=log_level(environment),
            log_format=_choice(environment, "IMPORTLEDGER_LOG_FORMAT", ("auto", "text", "json"), "auto"),
            health_port=_port(environment, "IMPORTLEDGER_HEALTH_PORT"),
            console=_console(environment),
            metrics_host=_host(environment, "IMPORTLEDGER_METRICS_HOST"),
            metrics_port=_port(environment, "IMPORTLEDGER_METRICS_PORT"),
            metrics_folder=_existing_folder(environment, "PROMETHEUS_MULTIPROC_DIR"),
            traces=_traces(environment),
            has_sampler=bool(environment.get("OTEL_TRACES_SAMPLER")),
            service_name=_service_name(environment),
            role_name=environment.get("IMPORTLEDGER_ROLE_NAME") or None,
            roles_file=_path(environment, "IMPORTLEDGER_ROLES_FILE"),
        )

    def refuse_incomplete(self) -> None:
        """Raises SettingError where one setting needs another, whichever role reads them."""
        if self.smtp_url is not None and self.mail_from is None:
            raise SettingError(
                "IMPORTLEDGER_MAIL_FROM is not set: IMPORTLEDGER_SMTP_URL needs it, an e-mail address, or a name and "
                "an address in angle brackets."
            )
        if self.is_smtp_plain and not is_this_machine(urlsplit(self.smtp_url or "").hostname):
            raise SettingError(
                "IMPORTLEDGER_SMTP_PLAINTEXT must not be on, unless IMPORTLEDGER_SMTP_URL names a mail server on this "
                "machine: localhost, 127.0.0.1 or [::1]."
            )
        if self.database_admin_url is not None and self.database_url is None:
            raise SettingError("DATABASE_URL is not set: DATABASE_ADMIN_URL needs it, a URL of the service's own role.")


def _with_secrets(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The same, with what stands in files; blanks around it are none of it."""
    read: dict[str, str] = {}
    for name in SECRETS:
        named = environment.get(f"{name}_FILE")
        if not named or environment.get(name):  # `up` gives its roles the value itself, beside what it has inherited
            continue
        try:
            with Path(named).open(encoding="utf-8") as file:
                read[name] = file.read(_SECRET_MAX).strip()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise SettingError(f"{name}_FILE: {named} cannot be read: {reason}.") from None
        if not read[name]:
            raise SettingError(f"{name}_FILE: {named} is empty.")
    return {**environment, **read} if read else environment


def shown_settings(environment: Mapping[str, str] = os.environ) -> tuple[tuple[str, str], ...]:
    """The variables that are set, by name; what is secret in them is not shown."""
    names = sorted(name for name in environment if name.startswith(("IMPORTLEDGER_", "DATABASE_", "REDIS_")))
    return tuple((name, _HIDDEN if _SECRET.search(name) else cleaned(environment[name])) for name in names)


_HIDDEN = "••••••"
_SECRET = re.compile(r"KEY|SECRET|PASSWORD|TOKEN")


def log_level(environment: Mapping[str, str] = os.environ) -> str:
    """How much is logged. Raises SettingError."""
    return _choice(environment, "IMPORTLEDGER_LOG_LEVEL", _LEVELS, "info")


def _default_data_dir(environment: Mapping[str, str]) -> str:
    if os.geteuid() == 0:
        return "/var/lib/importledger"
    home = environment.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return f"{home}/importledger"


def _url(environment: Mapping[str, str], name: str, schemes: tuple[str, ...]) -> str | None:
    value = environment.get(name)
    if not value:
        return None
    shape = f"{name} must be a URL that begins with {' or '.join(f'{s}://' for s in schemes)}"
    try:
        scheme, _ = urlsplit(value).scheme, urlsplit(value).port
    except ValueError:
        raise SettingError(f"{shape} and has a host, and a port that is a number, if any.") from None
    if scheme not in schemes:
        raise SettingError(f"{shape}.")
    return value


def _database_url(environment: Mapping[str, str], name: str) -> str | None:
    """The URL, which may name several hosts, with the time-outs that end a connection to a dead one."""
    value = environment.get(name)
    if not value:
        return None
    if value.partition("://")[0] not in _POSTGRES:
        raise SettingError(f"{name} must be a URL that begins with postgresql:// or postgres://.")
    try:
        parts, url = conninfo_to_dict(value), guarded(value)
    except psycopg.ProgrammingError:  # its message would show the value
        raise SettingError(f"{name} must be a URL such as postgresql://user:password@host:5432/database.") from None
    for part in ("sslrootcert", "sslcert", "sslkey", "sslcrl"):
        if parts.get(part) not in (None, "", "system"):
            _refuse_missing(f"{name}: {part}", Path(str(parts[part])))
    return url


def _redis_url(environment: Mapping[str, str]) -> str | None:
    value = _url(environment, "REDIS_URL", _REDIS)
    if value is None:
        return None
    from workers.redis_address import is_redis_url  # its library is large, and most verbs need no Redis

    if not is_redis_url(value):
        raise SettingError("REDIS_URL must be a URL such as redis://host:6379/0 or unix:///path.sock.")
    parts = urlsplit(value)
    if parts.scheme != "unix" and not re.fullmatch(r"/?[0-9]*", parts.path):  # the library would take database 0
        raise SettingError("REDIS_URL must end with the number of a database, such as redis://host:6379/0, or without.")
    for name, values in parse_qs(parts.query).items():
        if name in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"):
            _refuse_missing(f"REDIS_URL: {name}", Path(values[0]))
    return value


def _console(environment: Mapping[str, str]) -> ConsoleSettings:
    url = _url(environment, "IMPORTLEDGER_CONSOLE_URL", ("http", "https"))
    return ConsoleSettings(
        trusted_proxies=_networks(environment, "IMPORTLEDGER_TRUSTED_PROXIES"),
        url=(url or "").rstrip("/").removesuffix("/console"),
        openid=_openid(environment),
        places=_places(environment),
    )


def _places(environment: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """`ORGANISATION=URL,URL`, with semicolons between several organisations."""
    name, places = "IMPORTLEDGER_DOCUMENTS_PLACES", dict[str, tuple[str, ...]]()
    for said in (environment.get(name) or "").split(";"):
        organisation, _, urls = said.partition("=")
        allowed = tuple(url.strip() for url in urls.split(",") if url.strip())
        if said.strip() and not (organisation.strip() and allowed and all(map(_is_place, allowed))):
            raise SettingError(
                f"{name} must be such as Nordwind Energie=s3://nordwind/documents,file:///srv/nordwind, with semicolons"
                " between several organisations."
            )
        if organisation.strip() in places:
            raise SettingError(f"{name} must name {organisation.strip()} once, with commas between its places.")
        if said.strip():
            places[organisation.strip()] = allowed
    return places


def _is_place(url: str) -> bool:
    return urlsplit(url).scheme in _OBJECT_STORES and lies_below(url, [url])


def _openid(environment: Mapping[str, str]) -> OpenIdSettings | None:
    """The provider that people may sign in with; None where no issuer is named."""
    prefix = "IMPORTLEDGER_OIDC_"
    issuer = _url(environment, f"{prefix}ISSUER", ("http", "https"))
    if issuer is None:
        for name in ("CLIENT_ID", "CLIENT_SECRET", "CLAIM", "ROLES"):
            if environment.get(f"{prefix}{name}"):
                raise SettingError(f"{prefix}ISSUER is not set: {prefix}{name} needs it.")
        return None
    parts = urlsplit(issuer)
    if parts.scheme == "http" and not is_this_machine(parts.hostname):
        raise SettingError(f"{prefix}ISSUER must begin with https://, but for a provider on this machine.")
    for name in ("CLIENT_ID", "CLIENT_SECRET", "ROLES"):
        if not environment.get(f"{prefix}{name}"):
            raise SettingError(f"{prefix}{name} is not set: {prefix}ISSUER needs it.")
    return OpenIdSettings(
        issuer=issuer,
        client_id=environment[f"{prefix}CLIENT_ID"],
        client_secret=environment[f"{prefix}CLIENT_SECRET"],
        claim=environment.get(f"{prefix}CLAIM") or "groups",
        grants=tuple(_grant(one) for one in environment[f"{prefix}ROLES"].split(";") if one.strip()),
    )


def is_this_machine(host: str | None) -> bool:
    """Return True for `localhost` and loopback addresses: what is sent there does not leave the machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def _grant(text: str) -> tuple[str, OpenIdGrant]:
    """`VALUE=ROLE:ORGANISATION:SUPPLIER,SUPPLIER`, `*` for all suppliers."""
    value, _, said = (part.strip() for part in text.partition("="))
    role, organisation, suppliers = (*(part.strip() for part in said.split(":", 2)), "", "")[:3]
    codes = tuple(code.strip() for code in suppliers.split(",") if code.strip())
    if not value or role not in get_args(UserRole) or not codes:
        raise SettingError(
            "IMPORTLEDGER_OIDC_ROLES must be such as ledger-support=support:Nordwind Energie:NORDWIND, with semicolons "
            "between several. Roles are auditor, support and operator; suppliers must be named, or * for all."
        )
    return value, OpenIdGrant(role=cast(UserRole, role), organisation=organisation or "Platform", suppliers=codes)


def _networks(environment: Mapping[str, str], name: str) -> tuple[Network, ...]:
    try:
        return tuple(
            ipaddress.ip_network(one.strip()) for one in (environment.get(name) or "").split(",") if one.strip()
        )
    except ValueError:
        raise SettingError(
            f"{name} must be addresses or networks with commas between them: 10.0.0.5, fd00::/8."
        ) from None


def _smtp_url(environment: Mapping[str, str]) -> str | None:
    value = _url(environment, "IMPORTLEDGER_SMTP_URL", _SMTP)
    if value is not None and not urlsplit(value).hostname:
        raise SettingError("IMPORTLEDGER_SMTP_URL must name a host, such as smtp://user:password@host:587.")
    return value


def _sealing_key(environment: Mapping[str, str]) -> str | None:
    value = environment.get("IMPORTLEDGER_SEALING_KEY")
    if not value:
        return None
    try:
        LogKey.of(value, "IMPORTLEDGER_SEALING_KEY")
    except KeyNotUsable as error:
        raise SettingError(str(error)) from None
    return value


def _checkpoints_url(environment: Mapping[str, str]) -> str | None:
    name = "IMPORTLEDGER_CHECKPOINTS_URL"
    value = _url(environment, name, _OBJECT_STORES)
    if value is None:
        return None
    parts = urlsplit(value)
    if parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
        raise SettingError(f"{name} must have three slashes and a whole path: file:///folder.")
    if parts.scheme != "file" and not parts.netloc:
        raise SettingError(f"{name} must name a bucket: {parts.scheme}://bucket or {parts.scheme}://bucket/folder.")
    return value


def _key(environment: Mapping[str, str], name: str) -> str | None:
    value = environment.get(name)
    if value is not None and len(value) < 32:
        raise SettingError(f"{name} must have at least 32 characters.")
    return value


def _address(environment: Mapping[str, str], name: str) -> str | None:
    value = environment.get(name)
    if value and not _ADDRESS.match(value):
        raise SettingError(f"{name} must be an e-mail address, or a name and an address in angle brackets.")
    return value or None


def _converted(environment: Mapping[str, str], name: str, kind: Any, default: str, must_be: str) -> Any:
    """The variable's value as this type. Raises SettingError, which says what it must be."""
    value = environment.get(name, default)
    try:
        return msgspec.convert(value.strip().lower(), kind, strict=False)
    except msgspec.ValidationError:
        raise SettingError(f"{name} must be {must_be}, not {value!r}.") from None


def _port(environment: Mapping[str, str], name: str) -> int | None:
    if not environment.get(name):
        return None
    port: int = _converted(environment, name, _Port, "", "a port from 1 to 65535")
    return port


def _path(environment: Mapping[str, str], name: str) -> Path | None:
    value = environment.get(name)
    return Path(value) if value else None


def _folder(environment: Mapping[str, str], name: str) -> Path | None:
    """A folder, which may still have to be made. Raises SettingError for anything else at its place."""
    path = _path(environment, name)
    if path is not None and path.exists() and not path.is_dir():
        raise SettingError(f"{name} must be a folder: {path} is a file.")
    return path


def _existing_folder(environment: Mapping[str, str], name: str) -> Path | None:
    folder = _folder(environment, name)
    if folder is not None and not folder.exists():
        raise SettingError(f"{name} must name a folder that exists: {folder} does not.")
    return folder


def _refuse_missing(name: str, file: Path) -> None:
    try:
        with file.open("rb"):
            pass
    except OSError as error:
        raise SettingError(f"{name} must name a file that can be read: {file}: {error.strerror}.") from None


def _host(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name) or "127.0.0.1"
    try:
        if not _HOST.fullmatch(value):
            ipaddress.IPv6Address(value)
    except ValueError:
        raise SettingError(
            f"{name} must be an address or a host name of this machine, such as 127.0.0.1 or ::."
        ) from None
    return value


def _traces(environment: Mapping[str, str]) -> Literal["none", "otlp", "console"]:
    """Off, unless an exporter or an endpoint is named (and not OTEL_SDK_DISABLED)."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return "none"
    places = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    default = "otlp" if any(environment.get(name) for name in places) else "none"
    named = {name: value for name, value in environment.items() if value}
    for name in ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"):
        _choice(named, name, ("http/protobuf",), "http/protobuf")
    for name in places:
        if (url := _url(environment, name, ("http", "https"))) and not urlsplit(url).hostname:
            raise SettingError(f"{name} must name a host, such as http://localhost:4318.")
    for name in _OTLP_FILES:
        if environment.get(name):
            _refuse_missing(name, Path(environment[name]))
    kind = _choice(named, "OTEL_TRACES_EXPORTER", ("otlp", "console", "none"), default)
    return cast(Literal["none", "otlp", "console"], kind)


def _service_name(environment: Mapping[str, str]) -> str | None:
    is_named = environment.get("OTEL_SERVICE_NAME") or "service.name=" in environment.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    return None if is_named else "importledger"


def _interval(environment: Mapping[str, str], name: str, default: str) -> float:
    interval: float = _converted(environment, name, _Interval, default, "a number of seconds from 1 to 86400")
    return interval


def _choice(environment: Mapping[str, str], name: str, choices: tuple[str, ...], default: str) -> str:
    choice: str = _converted(environment, name, Literal[choices], default, f"one of {', '.join(choices)}")
    return choice
