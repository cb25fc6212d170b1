"""The settings of a process: read once from the environment, at its entry point."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

_POSTGRES = ("postgresql", "postgres")
_REDIS = ("redis", "rediss", "unix")
_ADDRESS = re.compile(r"[^@<>\r\n]+@[^@<>\s]+\Z|[^@<>\r\n]+<[^@<>\s]+@[^@<>\s]+>\Z")
_OBJECT_STORES = ("file", "s3", "gs", "az")
_SMTP = ("smtp", "smtps")
_LEVELS = ("debug", "info", "warning", "error")


class SettingError(Exception):
    """A setting is missing or wrong; the message names it."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """One value per environment variable; None where an embedded default applies."""

    data_dir: Path
    database_url: str | None
    database_admin_url: str | None
    redis_url: str | None
    token_key: str | None
    sealing_key: str | None
    checkpoints_url: str | None
    seal_every_s: float
    """How often the log is sealed."""
    smtp_url: str | None
    mail_from: str | None
    has_graphiql: bool
    clock_offset_s: float
    """For tests: how far this process's clock is ahead of the machine's."""
    worker_threads: int
    log_level: str

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """Raises SettingError, which names the variable."""
        return cls(
            data_dir=Path(environment.get("IMPORTLEDGER_DATA_DIR") or _default_data_dir(environment)),
            database_url=_url(environment, "DATABASE_URL", _POSTGRES),
            database_admin_url=_url(environment, "DATABASE_ADMIN_URL", _POSTGRES),
            redis_url=_url(environment, "REDIS_URL", _REDIS),
            token_key=_token_key(environment),
            sealing_key=environment.get("IMPORTLEDGER_SEALING_KEY") or None,
            checkpoints_url=_url(environment, "IMPORTLEDGER_CHECKPOINTS_URL", _OBJECT_STORES),
            seal_every_s=_interval(environment, "IMPORTLEDGER_SEAL_EVERY_S", "60"),
            smtp_url=_url(environment, "IMPORTLEDGER_SMTP_URL", _SMTP),
            mail_from=_address(environment, "IMPORTLEDGER_MAIL_FROM"),
            has_graphiql=_choice(environment, "IMPORTLEDGER_GRAPHIQL", ("on", "off"), "off") == "on",
            clock_offset_s=_seconds(environment, "IMPORTLEDGER_TEST_CLOCK_OFFSET_S"),
            worker_threads=_count(environment, "IMPORTLEDGER_WORKER_THREADS", 2),
            log_level=_choice(environment, "IMPORTLEDGER_LOG_LEVEL", _LEVELS, "info"),
        )


def _default_data_dir(environment: Mapping[str, str]) -> str:
    if os.geteuid() == 0:
        return "/var/lib/importledger"
    home = environment.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return f"{home}/importledger"


def _url(environment: Mapping[str, str], name: str, schemes: tuple[str, ...]) -> str | None:
    value = environment.get(name)
    if not value:
        return None
    if urlsplit(value).scheme not in schemes:
        raise SettingError(f"{name} must be a URL that begins with {' or '.join(f'{s}://' for s in schemes)}.")
    return value


def _token_key(environment: Mapping[str, str]) -> str | None:
    value = environment.get("IMPORTLEDGER_TOKEN_KEY")
    if value is not None and len(value) < 32:
        raise SettingError("IMPORTLEDGER_TOKEN_KEY must have at least 32 characters.")
    return value


def _address(environment: Mapping[str, str], name: str) -> str | None:
    value = environment.get(name)
    if value and not _ADDRESS.match(value):
        raise SettingError(f"{name} must be an e-mail address, or a name and an address in angle brackets.")
    return value or None


def _count(environment: Mapping[str, str], name: str, default: int) -> int:
    value = environment.get(name, str(default))
    if not value.isdigit() or not 1 <= int(value) <= 64:
        raise SettingError(f"{name} must be a whole number from 1 to 64, not {value!r}.")
    return int(value)


def _seconds(environment: Mapping[str, str], name: str, default: str = "0") -> float:
    value = environment.get(name, default)
    try:
        return float(value)
    except ValueError:
        raise SettingError(f"{name} must be a number of seconds, not {value!r}.") from None


def _interval(environment: Mapping[str, str], name: str, default: str) -> float:
    value = _seconds(environment, name, default)
    if not 1 <= value <= 86_400:
        raise SettingError(f"{name} must be a number of seconds from 1 to 86400, not {environment.get(name)!r}.")
    return value


def _choice(environment: Mapping[str, str], name: str, choices: tuple[str, ...], default: str) -> str:
    value = environment.get(name, default).lower()
    if value not in choices:
        raise SettingError(f"{name} must be one of {', '.join(choices)}, not {value!r}.")
    return value
