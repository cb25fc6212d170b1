"""The settings of a process, read once from the environment at its entry point.

Reading, the list of secrets, the support bundle and the table in docs/reference/settings.md follow from `SETTINGS`.
"""

import difflib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import msgspec

from cli.service import readers
from cli.service.reach import address_of
from cli.service.readers import SettingError as SettingError
from cli.service.readers import is_this_machine
from console.settings import ConsoleSettings, Network, OpenIdGrant, OpenIdSettings
from eventstore.aggregates.owner_task import OwnerTaskKind
from eventstore.operations.fitness import Durability
from redaction.text import cleaned

if TYPE_CHECKING:
    from workers.actors.mail_server import MailServer

_OTLP_FILES = tuple(
    f"OTEL_EXPORTER_OTLP_{kind}{name}"
    for kind in ("", "TRACES_")
    for name in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY")
)
_SECRET_MAX = 10_000
"""Characters of a file that holds a secret."""
Disclosure = Literal["secret", "private", "plain"]


class Variable(msgspec.Struct, frozen=True):
    """Environment variable of a setting: its field of `Settings`, the reader of its value, and its documentation."""

    field: str
    name: str
    disclosure: Disclosure
    """A secret may be in a file that `NAME_FILE` names. A support bundle contains only values of plain settings."""
    read: Callable[[str, str], Any]
    """Return the value of (name, text). Raises SettingError."""
    default: Any
    shown_default: str
    meaning: str


SETTINGS = (
    Variable("data_dir", "IMPORTLEDGER_DATA_DIR", "plain", readers.folder, None,
            "`/var/lib/importledger` as root, else `~/.local/share/importledger`",
            "Folder of the embedded servers, by which the verbs find a running service."),
    Variable("database_url", "DATABASE_URL", "secret", readers.database_url, None, "embedded Postgres",
            "Database role of the process: `importledger_api`, `importledger_worker` or `importledger_relay`. "
            "`migrate` grants its rights. A worker without `REDIS_URL` is also a relay, and needs the rights of both "
            "roles."),
    Variable("database_admin_url", "DATABASE_ADMIN_URL", "secret", readers.database_url, None, "`DATABASE_URL`",
            "Owner of the schema, for `migrate`, `projections`, `erase`, `backup`, `restore`, `key create` and "
            "`key revoke`. The relay needs this URL for operations that users of the console request."),
    Variable("redis_url", "REDIS_URL", "secret", readers.redis_url, None, "embedded Redis",
            "`redis://`, `rediss://` or `unix://`. Without Redis, messages stay in the memory of one worker."),
    Variable("durability", "IMPORTLEDGER_DURABILITY", "plain", readers.choice("local", "replicated"), "local", "",
            "`replicated`: an acknowledged import is also on a synchronous standby. Without a standby the service does "
            "not start, and `/readyz` is 503."),
    Variable("token_key", "IMPORTLEDGER_TOKEN_KEY", "secret", readers.key, None, "made in the data folder",
            "Key that signs tokens: at least 32 characters, the same for every api process."),
    Variable("request_key", "IMPORTLEDGER_REQUEST_KEY", "secret", readers.key, None,
            "made in the data folder by `up` (`secrets/request_key`)",
            "Key that authenticates requests of the api to the relay, sessions, passwords and OpenID subjects: at "
            "least 32 characters, the same for every api and relay. A new key ends all sessions and passwords."),
    Variable("four_eyes", "IMPORTLEDGER_FOUR_EYES", "plain", readers.four_eyes, frozenset(), "none",
            "Actions that need [a second person](../how-to/second-person.md), with commas: `revert`, `release`, "
            "`erase`, `complete`, `switch`, `retry`, `cancel`, and `push` for the go-live of a book in the console. "
            "`release` covers `complete`. Set the same value for every api, relay and command line."),
    Variable("sealing_key", "IMPORTLEDGER_SEALING_KEY", "secret", readers.seal_key, None,
            "made in the data folder (`secrets/sealing_key`)",
            "Key that signs checkpoints: 32 random bytes in base64url, the same for relay, `seal` and `proof`. Keep a "
            "copy."),
    Variable("checkpoints_url", "IMPORTLEDGER_CHECKPOINTS_URL", "private", readers.checkpoints_url, None,
            "`checkpoints` in the data folder",
            "Place of checkpoints outside the database: `file:///…`, `s3://…`, `gs://…` or `az://…`. The "
            "administrators of the database should not be able to write to this place."),
    Variable("seal_every_s", "IMPORTLEDGER_SEAL_EVERY_S", "plain", readers.seconds, 60.0, "60",
            "Seconds between two checkpoints that the relay signs, from 1 to 86400."),
    Variable("documents_places", "IMPORTLEDGER_DOCUMENTS_PLACES", "private", readers.places, {}, "none",
            "Places where operators of an organisation may set the documents root of a supplier, for api and workers: "
            "`ORGANISATION=URL,URL`, with semicolons between organisations. Workers do not check documents at a "
            "place that was removed. Users with all suppliers and the command line may set any root."),
    Variable("smtp_url", "IMPORTLEDGER_SMTP_URL", "secret", readers.smtp_url, None, "none: e-mails wait",
            "Mail server of the workers: `smtp://[user:password@]host[:port]` or `smtps://…`. TLS is required; "
            "`smtp://` uses STARTTLS. Ports: 587 with a user, 25 without, 465 for `smtps://`."),
    Variable("is_smtp_plain", "IMPORTLEDGER_SMTP_PLAINTEXT", "private", readers.on_off, False, "`off`",
            "`on`: no TLS with an `smtp://` server on the same machine (`localhost`, `127.0.0.1`, `[::1]`). Not "
            "allowed with another server."),
    Variable("mail_from", "IMPORTLEDGER_MAIL_FROM", "private", readers.mail_address, None, "none",
            "Sender of e-mails. Required with `IMPORTLEDGER_SMTP_URL`."),
    Variable("console_url", "IMPORTLEDGER_CONSOLE_URL", "private", readers.console_url, "", "where the service listens",
            "Address of the console, such as `https://ledger.example`. Sign-in links and the OpenID "
            "redirect begin with this address."),
    Variable("trusted_proxies", "IMPORTLEDGER_TRUSTED_PROXIES", "private", readers.networks, (), "none",
            "Addresses or networks of [reverse proxies](../how-to/proxy.md), with commas. The api "
            "accepts forwarding headers only from these addresses."),
    Variable("oidc_issuer", "IMPORTLEDGER_OIDC_ISSUER", "private", readers.issuer, None, "none",
            "OpenID Connect provider with which users may sign in. Redirect path: `/console/openid/answer/`."),
    Variable("oidc_client_id", "IMPORTLEDGER_OIDC_CLIENT_ID", "private", readers.any_text, None, "none",
            "Client ID at the provider. Required with an issuer."),
    Variable("oidc_client_secret", "IMPORTLEDGER_OIDC_CLIENT_SECRET", "secret", readers.any_text, None, "none",
            "Client secret at the provider. Required with an issuer."),
    Variable("oidc_claim", "IMPORTLEDGER_OIDC_CLAIM", "private", readers.any_text, None, "`groups`",
            "Claim that decides what a user may do, from the ID token or else the user info."),
    Variable("oidc_roles", "IMPORTLEDGER_OIDC_ROLES", "private", readers.grants, None, "none",
            "`VALUE=ROLE:ORGANISATION:SUPPLIER,SUPPLIER`, with semicolons between entries. The first entry whose "
            "value is in the claim applies. `*` means all suppliers, an empty organisation `Platform`. Required with "
            "an issuer."),
    Variable("is_sandbox", "IMPORTLEDGER_SANDBOX", "plain", readers.on_off, False, "`off`",
            "`on`: the ending of an account number selects an outcome; every answer has a header that says so. Not "
            "for production."),
    Variable("niceness", "IMPORTLEDGER_NICENESS", "plain", readers.niceness, 19, "",
            "CPU niceness of relay and workers, 0 to 19. A higher number leaves the api more CPU time: [intake "
            "first](../explanation/performance.md#intake-first)."),
    Variable("health_port", "IMPORTLEDGER_HEALTH_PORT", "private", readers.port, None, "none",
            "Port on which a relay or worker answers `GET /livez` and `GET /readyz`. An api answers these requests "
            "on its own port."),
    Variable("metrics_port", "IMPORTLEDGER_METRICS_PORT", "plain", readers.port, None,
            "none: `/metrics` is on the public port, for operator keys with all suppliers",
            "Port for `/metrics` only, without credentials; the public port then has no `/metrics`. `up` uses one "
            "port for all of its processes; `api`, `relay` and `worker` each need a separate port."),
    Variable("metrics_host", "IMPORTLEDGER_METRICS_HOST", "plain", readers.host, "127.0.0.1", "",
            "Address of the metrics port."),
    Variable("log_level", "IMPORTLEDGER_LOG_LEVEL", "plain", readers.choice("debug", "info", "warning", "error"),
            "info", "", "`debug`, `info`, `warning` or `error`."),
    Variable("log_format", "IMPORTLEDGER_LOG_FORMAT", "plain", readers.choice("auto", "text", "json"), "auto", "",
            "`text`, `json`, or `auto`: text on a terminal and JSON elsewhere."),
)  # fmt: skip
"""Every setting, in the order of the documentation."""
NOT_EMPTY = frozenset(
    {"IMPORTLEDGER_DURABILITY", "IMPORTLEDGER_TOKEN_KEY", "IMPORTLEDGER_REQUEST_KEY", "IMPORTLEDGER_SEAL_EVERY_S"}
    | {"IMPORTLEDGER_SMTP_PLAINTEXT", "IMPORTLEDGER_SANDBOX", "IMPORTLEDGER_NICENESS"}
    | {"IMPORTLEDGER_LOG_LEVEL", "IMPORTLEDGER_LOG_FORMAT"}
)
"""Settings whose empty value is refused: their defaults would hide that a variable of a deployment was forgotten."""
SECRETS = tuple(setting.name for setting in SETTINGS if setting.disclosure == "secret")
INTERNAL = ("IMPORTLEDGER_ROLE_NAME", "IMPORTLEDGER_ROLES_FILE")
"""Variables that a supervisor sets for its children."""
ELSEWHERE = ("IMPORTLEDGER_URL", "IMPORTLEDGER_KEY", "IMPORTLEDGER_PUBLISH", "IMPORTLEDGER_SUBNET")
"""Variables that importbook and compose.yaml read."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The values of `SETTINGS`, and of variables that belong to supervisors and libraries."""

    data_dir: Path
    database_url: str | None
    database_admin_url: str | None
    redis_url: str | None
    durability: Durability
    token_key: str | None
    request_key: str | None
    four_eyes: frozenset[OwnerTaskKind | Literal["push"]]
    sealing_key: str | None
    checkpoints_url: str | None
    seal_every_s: float
    documents_places: Mapping[str, tuple[str, ...]]
    smtp_url: str | None
    is_smtp_plain: bool
    mail_from: str | None
    console_url: str
    trusted_proxies: tuple[Network, ...]
    oidc_issuer: str | None
    oidc_client_id: str | None
    oidc_client_secret: str | None
    oidc_claim: str | None
    oidc_roles: tuple[tuple[str, OpenIdGrant], ...] | None
    is_sandbox: bool
    niceness: int
    health_port: int | None
    metrics_port: int | None
    metrics_host: str
    log_level: str
    log_format: str
    metrics_folder: Path | None
    """PROMETHEUS_MULTIPROC_DIR: folder for the counts of all processes, so that one process can expose all counts."""
    traces: Literal["none", "otlp", "console"]
    """Target of spans, by OpenTelemetry's own variables."""
    has_sampler: bool
    """True if OTEL_TRACES_SAMPLER decides which requests are traced."""
    service_name: str | None
    """Service name for OpenTelemetry; None if its own variables set one."""
    role_name: str | None
    """Name of a process below a supervisor, such as api-1."""
    roles_file: Path | None
    """File of an api process below a supervisor that names the roles that fail at every start."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """Read all settings. Raises SettingError, which names the variable.

        An empty value counts as not set, except for `NOT_EMPTY`.
        """
        if (unknown := unknown_setting(environment)) is not None:
            raise SettingError(unknown)
        values = {name: value for name, value in _with_secrets(environment).items() if value or name in NOT_EMPTY}
        read: dict[str, Any] = {
            setting.field: setting.read(setting.name, values[setting.name])
            if setting.name in values
            else setting.default
            for setting in SETTINGS
        }
        read["data_dir"] = read["data_dir"] or Path(_default_data_dir(values))
        roles_file = values.get("IMPORTLEDGER_ROLES_FILE")
        settings = cls(
            **read,
            metrics_folder=_metrics_folder(values),
            traces=_traces(values),
            has_sampler="OTEL_TRACES_SAMPLER" in values,
            service_name=_service_name(values),
            role_name=values.get("IMPORTLEDGER_ROLE_NAME"),
            roles_file=Path(roles_file) if roles_file else None,
        )
        settings._refuse_incomplete_openid()
        return settings

    @property
    def mail_server(self) -> "MailServer | None":
        """Mail server for e-mails to customers; None if it is not set, so that e-mails wait. Raises SettingError."""
        from workers.actors.mail_server import MailServer  # imported here: most verbs need no mail library

        self.refuse_incomplete()
        if self.smtp_url is None or self.mail_from is None:
            return None
        return MailServer(self.smtp_url, self.mail_from, is_plain=self.is_smtp_plain)

    @property
    def console(self) -> ConsoleSettings:
        openid = None
        if self.oidc_issuer and self.oidc_client_id and self.oidc_client_secret and self.oidc_roles:
            openid = OpenIdSettings(
                issuer=self.oidc_issuer,
                client_id=self.oidc_client_id,
                client_secret=self.oidc_client_secret,
                claim=self.oidc_claim or "groups",
                grants=self.oidc_roles,
            )
        return ConsoleSettings(
            trusted_proxies=self.trusted_proxies,
            url=self.console_url,
            openid=openid,
            places=self.documents_places,
            four_eyes=self.four_eyes,
            mail_server=self.mail_server,
        )

    def _refuse_incomplete_openid(self) -> None:
        prefix = "IMPORTLEDGER_OIDC_"
        if self.oidc_issuer is None:
            for name in ("client_id", "client_secret", "claim", "roles"):
                if getattr(self, f"oidc_{name}"):
                    raise SettingError(f"{prefix}ISSUER is not set: {prefix}{name.upper()} needs it.")
            return
        for name in ("client_id", "client_secret", "roles"):
            if not getattr(self, f"oidc_{name}"):
                raise SettingError(f"{prefix}{name.upper()} is not set: {prefix}ISSUER needs it.")

    def refuse_incomplete(self) -> None:
        """Raise SettingError if a setting needs another setting that is missing, in the same way for every role."""
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


def required(value: str | None, name: str) -> str:
    """Return the value of a setting. Raises SettingError if the setting has no value."""
    if value is None:
        raise SettingError(f"{name} is not set.")
    return value


def shown_settings(
    environment: Mapping[str, str] = os.environ, shown: tuple[Disclosure, ...] = ("plain",)
) -> dict[str, str]:
    """Return the variables that are set. Values are included if `shown` has the disclosure of the variable.

    Database URLs are shown without passwords, all other values as `(set)`.
    """
    plain = {"OTEL_TRACES_EXPORTER", "OTEL_TRACES_SAMPLER", "OTEL_SDK_DISABLED"}
    plain |= {setting.name for setting in SETTINGS if setting.disclosure in shown}
    values = {}
    for name, value in sorted(environment.items()):
        if not value or not name.startswith(("IMPORTLEDGER_", "DATABASE_", "REDIS_", "OTEL_")):
            continue
        if name in ("DATABASE_URL", "DATABASE_ADMIN_URL"):
            values[name] = address_of(value)
        else:
            values[name] = cleaned(value) if name in plain else "(set)"
    return values


def settings_table() -> str:
    """Return the table of the settings in docs/reference/settings.md."""
    rows = (
        f"| `{setting.name}` | {setting.shown_default or f'`{setting.default}`'} | {setting.meaning} |\n"
        for setting in SETTINGS
    )
    return "| variable | default | meaning |\n|---|---|---|\n" + "".join(rows)


def _with_secrets(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment with the secrets in the files of `NAME_FILE` variables.

    If NAME is set, its file is ignored.
    """
    read: dict[str, str] = {}
    for name in SECRETS:
        file = environment.get(f"{name}_FILE")
        if not file or environment.get(name):  # `up` passes the value to its roles, which also inherit NAME_FILE
            continue
        try:
            with Path(file).open(encoding="utf-8") as opened:
                read[name] = opened.read(_SECRET_MAX).strip()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise SettingError(f"{name}_FILE: {file} cannot be read: {reason}.") from None
        if not read[name]:
            raise SettingError(f"{name}_FILE: {file} is empty.")
    return {**environment, **read}


def _default_data_dir(environment: Mapping[str, str]) -> str:
    if os.geteuid() == 0:
        return "/var/lib/importledger"
    home = environment.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return f"{home}/importledger"


def _metrics_folder(values: Mapping[str, str]) -> Path | None:
    name = "PROMETHEUS_MULTIPROC_DIR"
    folder = readers.folder(name, values[name]) if name in values else None
    if folder is not None and not folder.exists():
        raise SettingError(f"{name} must name a folder that exists: {folder} does not.")
    return folder


def _traces(values: Mapping[str, str]) -> Literal["none", "otlp", "console"]:
    """Return the target of spans: none, unless an exporter or an endpoint is named and OTEL_SDK_DISABLED is not set."""
    if values.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return "none"
    for name in ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"):
        readers.choice("http/protobuf")(name, values.get(name, "http/protobuf"))
    endpoints = {
        name for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") if name in values
    }
    for name in endpoints:
        if not urlsplit(readers.url(name, values[name])).hostname:
            raise SettingError(f"{name} must name a host, such as http://localhost:4318.")
    for name in _OTLP_FILES:
        if name in values:
            readers.refuse_missing(name, Path(values[name]))
    exporter = values.get("OTEL_TRACES_EXPORTER", "otlp" if endpoints else "none")
    kind: Literal["none", "otlp", "console"] = readers.choice("otlp", "console", "none")(
        "OTEL_TRACES_EXPORTER", exporter
    )
    return kind


def _service_name(values: Mapping[str, str]) -> str | None:
    is_named = "OTEL_SERVICE_NAME" in values or "service.name=" in values.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return None if is_named else "importledger"


_KNOWN = frozenset(
    (*(setting.name for setting in SETTINGS), *INTERNAL, *ELSEWHERE, *(f"{name}_FILE" for name in SECRETS))
)
_OURS = "IMPORTLEDGER"
_SERVICE_LINK = re.compile(
    r"\w+_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_\w+)?)=|\w+_PORT=(?:tcp|udp|sctp)://"
)
"""`NAME=VALUE` of a variable that Kubernetes sets for a Service whose name begins with importledger."""


def unknown_setting(environment: Mapping[str, str]) -> str | None:
    """Return the sentence that refuses a misspelt setting, which would stay at its default; None if all names are
    known.
    """
    for name in sorted(environment):
        if name in _KNOWN or not _is_meant_for_us(name) or _SERVICE_LINK.match(f"{name}={environment[name]}"):
            continue
        near = difflib.get_close_matches(name.upper(), sorted(_KNOWN), n=1, cutoff=0.85)
        return f"{name} must not be set: there is no such setting." + (f" Did you mean {near[0]}?" if near else "")
    return None


def _is_meant_for_us(name: str) -> bool:
    """Return True if the name begins with IMPORTLEDGER, perhaps misspelt."""
    begin = name.upper().replace("_", "")[: len(_OURS)]
    return difflib.SequenceMatcher(None, begin, _OURS).ratio() > 0.85
