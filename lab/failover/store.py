"""Postgres on three machines with Patroni and etcd: one primary, two standbys. A commit waits for one standby."""

import importlib.util
import json
import secrets
import shutil
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, cast

import psycopg
from psycopg.sql import SQL, Literal

from embedded.postgres import INSTALLATION, WHEEL
from lab.failover.apart import NOBODY
from lab.failover.network import NETWORK, Machine, mount_memory
from lab.failover.programs import Program
from tests.support.running import wait_for

ADMIN, SERVICE, DATABASE = "importledger_admin", "importledger", "importledger"
MEMORY = Path("/mnt")
"""Folder of a memory disk in the run's own mount namespace, invisible to other processes."""
TTL_S, LOOP_S, RETRY_S = 20, 5, 5
"""Settings of Patroni [seconds]: life of the leader's lock (its minimum), interval of checks, time for retries."""
_PARAMETERS = {
    "max_connections": 150,
    "shared_buffers": "128MB",
    "max_wal_size": "1GB",
    "wal_keep_size": "1GB",
    "wal_compression": "on",
    "synchronous_commit": "on",
    "wal_sender_timeout": "5s",
    "wal_receiver_timeout": "5s",
}


class Node:
    """A machine with a member of etcd, Patroni and Postgres."""

    def __init__(self, machine: Machine, etcd: Program, patroni: Program) -> None:
        self.machine = machine
        self.etcd = etcd
        self.patroni = patroni

    def boot(self) -> None:
        for program in (self.etcd, self.patroni):
            program.start()


class Store:
    """Cluster of three Postgres nodes with Patroni."""

    def __init__(self, machines: list[Machine], folder: Path) -> None:
        self.passwords = {name: secrets.token_urlsafe(16) for name in (ADMIN, SERVICE, "replicator")}
        self._folder = folder
        mount_memory(MEMORY)  # etcd is the first to fail on a slow disk, and is not under test here
        self._binaries = _wheel() / INSTALLATION / "bin"
        self.nodes = [self._node(machine, machines) for machine in machines]

    def _node(self, machine: Machine, all_machines: list[Machine]) -> Node:
        node_folder = self._folder / machine.name
        node_folder.mkdir(mode=0o700)
        members = ",".join(f"{other.name}=http://{other.address}:2380" for other in all_machines)
        etcd = Program(
            machine,
            "etcd",
            [
                *NOBODY,
                shutil.which("etcd") or "etcd",
                *("--name", machine.name, "--data-dir", str(MEMORY / machine.name)),
                *("--listen-peer-urls", f"http://{machine.address}:2380"),
                *("--initial-advertise-peer-urls", f"http://{machine.address}:2380"),
                *("--listen-client-urls", f"http://{machine.address}:2379"),
                *("--advertise-client-urls", f"http://{machine.address}:2379"),
                *("--initial-cluster", members, "--initial-cluster-state", "new"),
                *("--heartbeat-interval", "200", "--election-timeout", "2000", "--logger", "zap", "--pre-vote"),
            ],
            folder=self._folder,
        )
        configuration = node_folder / "patroni.json"
        configuration.touch(mode=0o600)
        configuration.write_text(json.dumps(self._configuration(machine, node_folder, all_machines)))
        patroni = Program(
            machine, "patroni", [*NOBODY, sys.executable, "-m", "patroni", str(configuration)],
            folder=self._folder, environment={"HOME": str(node_folder)},
        )  # fmt: skip
        return Node(machine, etcd, patroni)

    def _configuration(self, machine: Machine, node_folder: Path, all_machines: list[Machine]) -> dict[str, Any]:
        login = "scram-sha-256"
        return {
            "scope": "importledger",
            "name": machine.name,
            "log": {"level": "INFO"},
            "restapi": {"listen": f"{machine.address}:8008", "connect_address": f"{machine.address}:8008"},
            "etcd3": {"hosts": [f"{other.address}:2379" for other in all_machines]},
            "bootstrap": {
                "dcs": {
                    "ttl": TTL_S,
                    "loop_wait": LOOP_S,
                    "retry_timeout": RETRY_S,
                    "synchronous_mode": "quorum",
                    "synchronous_mode_strict": True,
                    "synchronous_node_count": 1,
                    "postgresql": {"use_pg_rewind": True, "use_slots": True, "parameters": _PARAMETERS},
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "data-checksums"],
            },
            "postgresql": {
                "listen": f"{machine.address},127.0.0.1:5432",
                "connect_address": f"{machine.address}:5432",
                "data_dir": str(node_folder / "postgres"),
                "bin_dir": str(self._binaries),
                "pgpass": str(node_folder / "pgpass"),
                "authentication": {
                    "superuser": {"username": ADMIN, "password": self.passwords[ADMIN]},
                    "replication": {"username": "replicator", "password": self.passwords["replicator"]},
                },
                "parameters": {"unix_socket_directories": ""},
                "pg_hba": [
                    f"host all all 127.0.0.1/32 {login}",
                    f"host replication replicator 127.0.0.1/32 {login}",
                    f"host all all {NETWORK}.0/24 {login}",
                    f"host replication replicator {NETWORK}.0/24 {login}",
                ],
                "basebackup": [{"checkpoint": "fast"}],
                "remove_data_directory_on_rewind_failure": True,
                "remove_data_directory_on_diverged_timelines": True,
            },
            "watchdog": {"mode": "off"},
        }

    def start(self) -> None:
        """Start all nodes, wait for a primary and two standbys, and create the service's role and database."""
        for node in self.nodes:
            node.boot()
        self.wait_until_whole()
        with psycopg.connect(self.url(ADMIN, "postgres"), autocommit=True) as connection:
            password = Literal(self.passwords[SERVICE])
            connection.execute(SQL("CREATE ROLE importledger LOGIN PASSWORD {}").format(password))
            connection.execute("CREATE DATABASE importledger")

    def url(self, role: str, database: str = DATABASE, hosts: str | None = None) -> str:
        """Return the URL with all hosts, of which the client takes the primary, or with `hosts` instead."""
        hosts = hosts or ",".join(f"{node.machine.address}:5432" for node in self.nodes)
        return f"postgresql://{role}:{self.passwords[role]}@{hosts}/{database}?target_session_attrs=read-write"

    def members(self) -> dict[str, dict[str, Any]]:
        """Return Patroni's description of all members by name, from the first node that answers."""
        for node in self.nodes:
            if answer := _response_of(node, "cluster"):
                return {member["name"]: member for member in answer["members"]}
        return {}

    def primary(self, *, except_for: Node | None = None) -> Node | None:
        """Return the node that reports itself as the primary, other than `except_for`; None if there is none."""
        for node in self.nodes:
            if node is not except_for and _response_of(node, "primary") is not None:
                return node
        return None

    def wait_for_primary(self, *, except_for: Node | None = None) -> Node:
        found: list[Node] = []

        def has_primary() -> bool:
            if primary := self.primary(except_for=except_for):
                found.append(primary)
            return bool(found)

        wait_for(has_primary, "there is a primary", timeout_s=120)
        return found[0]

    def standbys(self) -> list[Node]:
        primary = self.wait_for_primary()
        return [node for node in self.nodes if node is not primary]

    def wait_until_whole(self) -> None:
        """Wait for one primary and two streaming standbys."""

        def is_whole() -> bool:
            members = list(self.members().values())
            leaders = [member for member in members if member["role"] == "leader" and member["state"] == "running"]
            behind = [
                member for member in members if member["role"] == "quorum_standby" and member["state"] == "streaming"
            ]
            return len(leaders) == 1 and len(behind) == len(self.nodes) - 1

        wait_for(is_whole, f"the cluster is whole: {self.members()}", timeout_s=180)

    def switch_over(self, old_primary: Node) -> None:
        """Request another primary from Patroni, and repeat the request if Patroni answers with an error."""
        request = urllib.request.Request(
            f"http://{old_primary.machine.address}:8008/switchover",
            data=json.dumps({"leader": old_primary.machine.name}).encode(),
            headers={"Content-Type": "application/json"},
        )

        def has_new_primary() -> bool:
            try:
                urllib.request.urlopen(request, timeout=60).close()
            except urllib.error.HTTPError:
                return self.primary(except_for=old_primary) is not None
            return True

        wait_for(has_new_primary, "Patroni switches over", timeout_s=60)


def _wheel() -> Path:
    spec = importlib.util.find_spec(WHEEL)
    assert spec is not None, "the environment has Postgres"
    assert spec.submodule_search_locations, "and it is a package"
    return Path(spec.submodule_search_locations[0])


def _response_of(node: Node, path: str) -> dict[str, Any] | None:
    """Return Patroni's answer with status 200; None otherwise."""
    try:
        with urllib.request.urlopen(f"http://{node.machine.address}:8008/{path}", timeout=1) as answer:
            return cast(dict[str, Any], json.load(answer))
    except (urllib.error.URLError, ConnectionError, TimeoutError, ValueError):
        return None


def haproxy_configuration(nodes: list[Node]) -> str:
    """Return the configuration of HAProxy, which forwards to the primary.

    It checks Patroni each second, and closes the connections to a node that is no longer the primary.
    """
    servers = "\n".join(
        f"  server {node.machine.name} {node.machine.address}:5432 check port 8008 inter 1s fall 2 rise 1"
        " on-marked-down shutdown-sessions"
        for node in nodes
    )
    return f"""
global
  maxconn 500
defaults
  mode tcp
  timeout connect 2s
  timeout check 2s
  timeout client 1h
  timeout server 1h
listen primary
  bind *:5432
  option httpchk GET /primary
  http-check expect status 200
{servers}
"""
