"""The verb `support-bundle`, which writes facts about an installation for support, without personal data."""

import json
import os
import platform
import re
import zipfile
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click
import msgspec
import psycopg

from cli.addresses import database_url
from cli.checkup.finding import Finding
from cli.doctor import examine
from cli.language import _
from cli.output import NewFile, json_option, print_result
from cli.service.reach import Unreachable
from cli.service.settings import SettingError, Settings, shown_settings
from eventstore.clock import now
from eventstore.events import AGGREGATES
from eventstore.log.recorder import CODE_VERSION
from projections import FOLLOWING
from projections.queries.vitals import read_vitals
from redaction.private_files import open_private
from redaction.text import cleaned, counted

MAX_TAIL_BYTES = 2_000_000
"""Bytes from the end of each log."""
_LIBRARIES = ("psycopg", "starlette", "uvicorn", "msgspec", "dramatiq", "redis", "eventsourcing", "cryptography")
_FIELDS = frozenset(
    {
        *("event", "level", "timestamp", "method", "route", "status", "duration_ms", "request_id", "code", "attempt"),
        *("position", "name", "reason", "restart_in_s", "projection", "size", "root", "worker", "threads", "queue"),
        *("imports", "streams", "supplier", "role", "exception"),
    }
)
"""Fields of the service's log lines in a bundle, which contain neither account numbers nor organisations."""
_STREAM = re.compile(rf"\b({'|'.join(AGGREGATES)})/.*", re.DOTALL)
_HEALED = re.compile(r"(projections heal) .*", re.DOTALL)
"""Arguments of `projections heal`, which, like stream ids, contain external account numbers, possibly with blanks."""
_QUOTED = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|`[^`\n]*`|=\([^)\n]*\)")
_FRAME = re.compile(r'^\s*(File "[^"]*", line \d+, in \S+|[\w.]+(?=:)|[\w.]+$)', re.M)
_POSTGRES = re.compile(r"^\S+ \S+ \S+ \[\d+\] (?:LOG|WARNING|ERROR|FATAL|PANIC|HINT):  .*$")
_MIGRATIONS = "SELECT name, applied_at FROM schema_migrations ORDER BY name"
_POSTGRES_SETTINGS = (
    "SELECT name, setting FROM pg_settings WHERE source NOT IN ('default', 'override') AND name = ANY(%s) ORDER BY 1"
)
_DATABASE_SETTINGS = (
    "fsync", "full_page_writes", "synchronous_commit", "synchronous_standby_names", "max_connections", "max_wal_size",
    "shared_buffers", "wal_level", "autovacuum", "checkpoint_timeout", "wal_compression", "max_slot_wal_keep_size",
    "default_statistics_target",
)  # fmt: skip


@click.command("support-bundle")
@click.option(
    "-o", "--output", type=NewFile(), help="Output file, which must be new [default: importledger-support-TIME.zip]"
)
@click.option(
    "--log", "logs", type=click.Path(path_type=Path, exists=True, dir_okay=False), multiple=True,
    help="Log file of the service, of which the last 2 MB are taken; repeatable.",
)  # fmt: skip
@json_option
def support_bundle(output: Path | None, logs: tuple[Path, ...], *, as_json: bool) -> None:
    """Write a .zip for support, without personal data.

    The file contains results of doctor, settings without secrets, versions, migrations, lags, counts and ends of logs.
    Of log lines, the file contains only known fields. Check the file before you send it.
    """
    file = output or Path(f"importledger-support-{now():%Y%m%d-%H%M%S}.zip")
    parts = dict(contents(os.environ, logs))
    with open_private(file) as target, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, text in parts.items():
            bundle.writestr(name, text)
    sentence = _(
        "{file} holds {parts}. Only you can read it; look into it before you send it.",
        file=file, parts=", ".join(parts),
    )  # fmt: skip
    print_result(sentence, {"file": str(file), "contents": [*parts]}, as_json=as_json)


def contents(environment: Mapping[str, str], logs: tuple[Path, ...]) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each file of a bundle. If a part cannot be read, the file has the reason."""
    yield "versions.json", _json(versions())
    yield "settings.json", _json(shown_settings(environment))
    findings = [finding_for_support(finding) for finding in examine()]
    yield "doctor.json", _json(findings)
    yield from _of_database()
    yield from _of_logs(environment, logs)


def versions() -> dict[str, str]:
    """Return the versions of the program, of Python, of the libraries and of the system."""
    result = {"importledger": CODE_VERSION, "python": platform.python_version(), "system": platform.platform()}
    for library in _LIBRARIES:
        try:
            result[library] = version(library)
        except PackageNotFoundError:
            result[library] = "missing"
    return result | {"cores": str(os.cpu_count() or 0)}


def line_for_support(line: str) -> str | None:
    """Return the known fields of a log line; None for a line of another form, which may contain personal data."""
    try:
        result = json.loads(line)
    except ValueError:
        return _without_names(line) if _POSTGRES.match(line) else None
    if not isinstance(result, dict):
        return None
    fields: dict[str, Any] = {
        name: value for name, value in result.items() if name in _FIELDS and isinstance(value, str | int | float | None)
    }
    for name in ("event", "reason"):
        if isinstance(fields.get(name), str):
            fields[name] = _without_names(fields[name])
    if isinstance(fields.get("exception"), str):
        fields["exception"] = "; ".join(match[1] for match in _FRAME.finditer(fields["exception"]))
    return json.dumps(fields)


def tail_for_support(file: Path) -> str:
    """Return the last lines of a log in the form of `line_for_support`, and the number of lines that were left out."""
    with file.open("rb") as source:
        source.seek(max(0, file.stat().st_size - MAX_TAIL_BYTES))
        lines = source.read(MAX_TAIL_BYTES).decode("utf-8", "replace").splitlines()
    shown = [text for text in map(line_for_support, lines) if text is not None]
    omitted = counted(len(lines) - len(shown), "line of another form is", "lines of another form are")
    return "\n".join([*shown, f"({omitted} left out)", ""])


def _of_database() -> Iterator[tuple[str, str]]:
    """Yield the files about the database: migrations, counts and lags, server settings."""
    try:
        with psycopg.connect(database_url(), autocommit=True, connect_timeout=5) as connection:
            connection.execute("SET statement_timeout = '10s'")
            overview = read_vitals(connection, tuple(projection.name for projection in FOLLOWING))
            migrations = {name: str(at) for name, at in connection.execute(_MIGRATIONS)}
            rows = connection.execute(_POSTGRES_SETTINGS, (list(_DATABASE_SETTINGS),)).fetchall()
            settings = {str(name): str(value) for name, value in rows}
            server = {"version": str(connection.info.server_version), "settings": settings}
    except (psycopg.Error, SettingError, Unreachable) as error:
        yield "database.json", _json({"away": cleaned(str(error).splitlines()[0] if str(error) else "")})
        return
    yield "migrations.json", _json(migrations)
    yield "overview.json", _json(msgspec.to_builtins(overview))
    yield "database.json", _json(server)


def _of_logs(environment: Mapping[str, str], logs: tuple[Path, ...]) -> Iterator[tuple[str, str]]:
    """Yield the ends of the given logs, and of the log of the embedded Postgres."""
    try:
        folder = Settings.from_environment(environment).data_dir
    except SettingError:
        folder = Path("/nonexistent")
    files = [file for file in (*logs, folder / "postgres.log") if file.is_file()]
    for number, file in enumerate(files, 1):
        try:
            text = tail_for_support(file)
        except OSError as error:
            text = f"({error.strerror})\n"
        yield f"logs/{number}-{file.name}", text


def finding_for_support(finding: Finding) -> dict[str, str | None]:
    """Return a finding of doctor in English, without account numbers."""
    todo = _HEALED.sub(r"\1 …", finding.todo) if finding.todo else None
    says = _STREAM.sub(r"\1/…", cleaned(finding.says))
    return {"check": finding.check, "state": finding.state, "says": says, "todo": todo}


def _without_names(text: str) -> str:
    return _STREAM.sub(r"\1/…", _QUOTED.sub("…", cleaned(text)))


def _json(result: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode() + "\n"
