"""compose.yaml, read strictly: what it starts is healthy before it is used, is closed, and shares what it must."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
import yaml

from embedded.postgres import MALLOC, EmbeddedPostgres

ROOT = Path(__file__).parent.parent.parent
ROLES = ("api", "relay", "worker")


class _Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Fields as the Compose specification has them; others would do nothing."""


class _Check(_Strict):
    test: list[str] = []
    interval: str = ""
    timeout: str = ""
    retries: int = 0
    start_period: str = ""
    disable: bool = False


class _Condition(_Strict):
    condition: Literal["service_started", "service_healthy", "service_completed_successfully"]


class _Build(_Strict):
    context: str
    dockerfile: str
    args: dict[str, str]


class _Target(_Strict):
    source: str
    target: str


class _Service(_Strict):
    image: str
    healthcheck: _Check
    restart: Literal["no", "unless-stopped"]
    command: list[str]
    environment: dict[str, str]
    security_opt: list[str]
    volumes: list[str] = []
    build: _Build | None = None
    cap_drop: list[str] = []
    configs: list[_Target] = []
    depends_on: dict[str, _Condition] = {}
    init: bool = False
    ports: list[str] = []
    ulimits: dict[str, int] = {}
    read_only: bool = False
    secrets: list[str] = []
    shm_size: str = ""
    stop_grace_period: str = ""
    tmpfs: list[str] = []


class _File(_Strict):
    file: str


class _Content(_Strict):
    content: str


class _Network(_Strict):
    ipam: dict[Literal["config"], list[dict[Literal["subnet"], str]]]


class _Compose(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    services: dict[str, _Service]
    secrets: dict[str, _File]
    configs: dict[str, _Content]
    networks: dict[str, _Network]
    volumes: dict[str, None]
    role: Any = msgspec.field(name="x-role")


@pytest.fixture(scope="module")
def compose() -> _Compose:
    return msgspec.convert(yaml.safe_load((ROOT / "compose.yaml").read_text()), _Compose)


def test_whatever_is_named_is_there(compose: _Compose) -> None:
    for service in compose.services.values():
        assert {name for name, _, _ in (volume.partition(":") for volume in service.volumes)} <= compose.volumes.keys()
        assert set(service.secrets) <= compose.secrets.keys()
        assert {config.source for config in service.configs} <= compose.configs.keys()
        assert service.depends_on.keys() <= compose.services.keys()


def test_everything_that_goes_on_has_a_health_check_and_is_waited_for(compose: _Compose) -> None:
    for name, service in compose.services.items():
        assert service.healthcheck.disable == (name == "migrate")
        assert service.healthcheck.disable or service.healthcheck.test
        for other, condition in service.depends_on.items():
            done = "service_completed_successfully" if other == "migrate" else "service_healthy"
            assert condition.condition == done
    for role in ROLES:
        assert compose.services[role].depends_on.keys() == {"migrate", "redis"}


def test_the_health_check_of_a_role_asks_where_it_answers(compose: _Compose) -> None:
    api, worker = compose.services["api"], compose.services["worker"]
    assert f"127.0.0.1:{api.command[api.command.index('--port') + 1]}/readyz" in api.healthcheck.test[-1]
    assert f"127.0.0.1:{worker.environment['IMPORTLEDGER_HEALTH_PORT']}/readyz" in worker.healthcheck.test[-1]


def test_every_role_shows_its_metrics_inside_of_the_network(compose: _Compose) -> None:
    for role in ROLES:
        shown = compose.services[role].environment
        assert (shown["IMPORTLEDGER_METRICS_HOST"], shown["IMPORTLEDGER_METRICS_PORT"]) == ("0.0.0.0", "9464")


def test_the_port_is_fixed_and_only_the_apis_is_open(compose: _Compose) -> None:
    assert {name: service.ports for name, service in compose.services.items() if service.ports} == {
        "api": ["${IMPORTLEDGER_PUBLISH:-127.0.0.1:8000}:8000"]
    }
    assert compose.services["api"].command == ["api", "--host", "0.0.0.0", "--port", "8000"]


def test_the_roles_have_a_read_only_root_and_no_rights(compose: _Compose) -> None:
    for name in (*ROLES, "migrate"):
        service = compose.services[name]
        assert service.read_only
        assert service.cap_drop == ["ALL"]
        assert service.security_opt == ["no-new-privileges:true"]
        assert service.tmpfs == ["/tmp"]
        assert service.ulimits == {"core": 0}


@pytest.mark.asvs("V13.2.1", "V13.2.3")
def test_passwords_come_from_outside_and_redis_has_one(compose: _Compose) -> None:
    assert re.search(r"^requirepass \$\{REDIS_PASSWORD:\?\}$", compose.configs["redis"].content, re.M)
    for service in compose.services.values():
        for name, value in service.environment.items():
            assert "PASSWORD" not in name or re.fullmatch(r"\$\{\w+:\?\}", value)
            assert "://" not in value or "@" not in value or re.search(r":\$\{\w+:\?\}@", value)
        assert "PASSWORD" not in " ".join(service.command), "other users see a command line"
    owners = [name for name, service in compose.services.items() if "DATABASE_ADMIN_URL" in service.environment]
    assert owners == ["migrate", "relay"]


def test_postgres_keeps_as_much_log_and_memory_as_the_embedded_one(compose: _Compose) -> None:
    options = set(compose.services["postgres"].command)
    own = dict(EmbeddedPostgres.options())
    assert "recovery_init_sync_method=syncfs" in options, "Linux runs containers, whatever this machine is"
    for name in (
        "max_wal_size",
        "wal_compression",
        "default_statistics_target",
        "log_min_messages",
        "log_error_verbosity",
    ):
        assert f"{name}={own[name]}" in options
    assert compose.services["postgres"].environment.items() >= MALLOC.items()


@pytest.mark.promise("every-file-deploy-compose")
@pytest.mark.skipif(shutil.which("docker") is None, reason="there is no docker here")
def test_docker_takes_the_file(tmp_path: Path) -> None:
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker is without compose here")
    passwords = dict.fromkeys(
        ("POSTGRES_PASSWORD", "API_PASSWORD", "WORKER_PASSWORD", "RELAY_PASSWORD", "REDIS_PASSWORD"), "x"
    )
    read = subprocess.run(
        ["docker", "compose", "-f", str(ROOT / "compose.yaml"), "config", "--quiet"],
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path)} | passwords,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert read.returncode == 0, read.stderr
