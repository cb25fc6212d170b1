"""The whole service as one process tree: api, relay and workers, and Postgres and Redis unless their URLs are set."""

import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO

import msgspec

from embedded.folder import DataFolder
from embedded.postgres import MALLOC, EmbeddedPostgres, PostgresUrls
from embedded.redis import EmbeddedRedis, redis_program
from embedded.supervisor import Program, Supervisor
from embedded.user import server_user
from eventstore.operations.fitness import Durability, NotChecked, refuse_unsafe
from eventstore.operations.migrate import role_of
from projections.versions.install import migrate_all
from system.shared_counts import counts_file
from telemetry.log import form_of_log, is_for_people

_RESTRICTED = tuple(
    f"{name}{form}"
    for name in ("DATABASE_ADMIN_URL", "IMPORTLEDGER_TOKEN_KEY", "IMPORTLEDGER_REQUEST_KEY")
    for form in ("", "_FILE")
)
"""Settings that only some roles may have."""


class Connections(msgspec.Struct, frozen=True, kw_only=True):
    """URLs of the servers. Without `redis_url`, messages stay in the worker's memory."""

    database_url: str
    admin_url: str
    redis_url: str | None
    role_urls: dict[str, str] = {}
    """URLs by kind of process, for kinds with a separate database role. Other kinds use `database_url`."""

    def url_of(self, kind: str) -> str:
        """Return the database URL of a kind of process."""
        return self.role_urls.get(kind, self.database_url)


class Service:
    """Starts the servers that have no URL, migrates the database, and starts the roles."""

    def __init__(self, folder: DataFolder, *, log_folder: Path | None = None) -> None:
        self._folder = folder
        self._user = server_user()
        self._log_folder = log_folder
        self._listening: Sequence[socket.socket] = ()
        self._counts: IO[bytes] | None = None
        self.supervisor = Supervisor(folder.write_failing_roles)

    def start_servers(
        self,
        database_url: str | None,
        admin_url: str | None,
        redis_url: str | None,
        durability: Durability = "local",
        *,
        most_connections: int = 0,
    ) -> Connections:
        """Start the servers and migrate. `most_connections`: number that all roles may open to an embedded Postgres.

        Raises FolderInUse, FolderUnreachable, MigrationError, UnsafeStore, NotStarted.
        """
        self._folder.create(self._user)
        self._folder.lock()
        role_urls: dict[str, str] = {}
        if database_url is None:
            urls = self._start_postgres(most_connections)
            database_url, admin_url, role_urls = urls.service, urls.admin, urls.roles
        if redis_url is None:
            redis_url = self._start_redis()
        with suppress(NotChecked):
            refuse_unsafe(database_url, durability)
        migrate_all(admin_url or database_url, service_role=role_of(database_url))
        connections = Connections(
            database_url=database_url,
            admin_url=admin_url or database_url,
            redis_url=redis_url,
            role_urls=role_urls,
        )
        urls_by_name = {"database_url": database_url, "admin_url": connections.admin_url, "redis_url": redis_url}
        self._folder.write_connections({name: url for name, url in urls_by_name.items() if url})
        return connections

    def start_roles(
        self,
        connections: Connections,
        *,
        listening: Sequence[socket.socket],
        api_processes: int,
        workers: int,
        token_key: str,
        request_key: str,
        environment: Mapping[str, str] = MappingProxyType({}),
        metrics: Sequence[socket.socket] = (),
    ) -> None:
        """Start the api processes, the relay (with Redis) and the workers.

        All api processes share these sockets, which stay open until `stop`: while a process is restarted, the others
        accept its connections. The sockets of a metrics port are shared in the same way. All roles write their metrics
        to one folder, under their names, so that any api process can show all of them.
        """
        self._listening = (*listening, *metrics)
        settings = os.environ | dict(environment)
        settings |= {
            "REDIS_URL": connections.redis_url or "",
            "IMPORTLEDGER_DATA_DIR": str(self._folder.path),
            "IMPORTLEDGER_ROLES_FILE": str(self._folder.roles_file),
            "IMPORTLEDGER_METRICS_PORT": "",
            "PROMETHEUS_MULTIPROC_DIR": str(self._folder.empty_metrics()),
        }
        if is_for_people(form_of_log()) and not self._log_folder:
            settings["IMPORTLEDGER_LOG_FORMAT"] = "text"  # the output of a role is a pipe
        self._folder.write_failing_roles({})
        sealing = {
            name: settings.pop(name, None) for name in ("IMPORTLEDGER_SEALING_KEY", "IMPORTLEDGER_SEALING_KEY_FILE")
        }
        for name in (*_RESTRICTED, "IMPORTLEDGER_HEALTH_PORT"):
            settings.pop(name, None)
        requests = {"IMPORTLEDGER_REQUEST_KEY": request_key}
        of_api = settings | requests | {"DATABASE_URL": connections.url_of("api"), "IMPORTLEDGER_TOKEN_KEY": token_key}
        of_worker = settings | {"DATABASE_URL": connections.url_of("worker")}
        as_owner = settings | requests | {"DATABASE_ADMIN_URL": connections.admin_url}
        as_owner |= {name: value for name, value in sealing.items() if value}
        self._counts = counts_file(api_processes)
        options = [("--fd", socket_.fileno()) for socket_ in listening] + [
            ("--metrics-fd", socket_.fileno()) for socket_ in metrics
        ]
        options.append(("--counts-fd", self._counts.fileno()))
        serving = ["api", *(part for option, fd in options for part in (option, str(fd)))]
        fds = tuple(fd for _, fd in options)
        roles = [
            self._role(f"api-{index + 1}", [*serving, "--counts-index", str(index)], of_api, fds)
            for index in range(api_processes)
        ]
        if connections.redis_url:
            roles.append(self._role("relay", ["relay"], as_owner | {"DATABASE_URL": connections.url_of("relay")}))
            roles += [self._role(f"worker-{n}", ["worker"], of_worker) for n in range(1, workers + 1)]
        else:  # the worker is also the relay
            roles.append(self._role("worker-1", ["worker"], as_owner | {"DATABASE_URL": connections.database_url}))
        self.supervisor.start(*roles)

    def api_pids(self) -> set[int]:
        return {pid for name, pid in self.supervisor.pids().items() if name.startswith("api-")}

    def has_api(self) -> bool:
        """Return True if any api process is alive."""
        return any(self.supervisor.is_alive(name) for name in self.supervisor.pids() if name.startswith("api-"))

    def stop(self) -> None:
        """Stop all processes and unlock the folder."""
        for listening in self._listening:
            listening.close()  # the api processes keep their copies of the sockets until they have answered
        if self._counts is not None:
            self._counts.close()
        self.supervisor.stop()
        self._folder.unlock()

    def _start_postgres(self, most_connections: int) -> PostgresUrls:
        postgres = EmbeddedPostgres(self._folder, self._user, most_connections=most_connections)
        postgres.prepare()
        postgres.stop_leftover()
        self.supervisor.start(
            Program(
                name="postgres",
                command=postgres.command(),
                environment=MALLOC | dict(os.environ),
                user=self._user,
                stop_signal=signal.SIGINT,
                stop_after_s=8.0,
                log=str(self._folder.path / "postgres.log"),
            )
        )
        postgres.wait_until_ready()
        return postgres.create_database()

    def _start_redis(self) -> str | None:
        program = redis_program()
        if program is None:
            return None
        redis = EmbeddedRedis(self._folder, self._user, program)
        self.supervisor.start(
            Program(
                name="redis",
                command=redis.command(),
                environment=os.environ,
                user=self._user,
                stop_after_s=3.0,
                log=str(self._folder.path / "redis.log"),
            )
        )
        return redis.url

    def _role(self, name: str, arguments: list[str], environment: dict[str, str], fds: tuple[int, ...] = ()) -> Program:
        log = str(self._log_folder / f"{name}.log") if self._log_folder else None
        command = [sys.executable, "-m", "cli.main", *arguments]
        environment = environment | {"IMPORTLEDGER_ROLE_NAME": name}
        return Program(name=name, command=command, environment=environment, log=log, stop_after_s=12.0, pass_fds=fds)
