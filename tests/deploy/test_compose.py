"""compose.yaml: health checks, dependencies, ports, secrets and hardening of its services."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from embedded.postgres import MALLOC, EmbeddedPostgres

ROOT = Path(__file__).parent.parent.parent
ROLES = ("api", "relay", "worker")


KEYS = {
    *("build", "cap_drop", "command", "configs", "depends_on", "environment", "healthcheck", "image", "init", "ports"),
    *(
        "read_only",
        "restart",
        "secrets",
        "security_opt",
        "shm_size",
        "stop_grace_period",
        "tmpfs",
        "ulimits",
        "volumes",
    ),
}
"""Keys of the Compose specification. Docker ignores others."""


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    read: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    return read


def test_named_networks_volumes_and_secrets_exist(services: dict[str, dict[str, Any]]) -> None:
    whole = yaml.safe_load((ROOT / "compose.yaml").read_text())
    for service in services.values():
        assert service.keys() <= KEYS
        assert {volume.partition(":")[0] for volume in service.get("volumes", ())} <= whole["volumes"].keys()
        assert set(service.get("secrets", ())) <= whole["secrets"].keys()
        assert {config["source"] for config in service.get("configs", ())} <= whole["configs"].keys()
        assert service.get("depends_on", {}).keys() <= services.keys()


def test_every_running_service_has_a_health_check_and_others_wait_for_it(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        assert service["healthcheck"].get("disable", False) == (name == "migrate")
        assert name == "migrate" or service["healthcheck"]["test"]
        for other, condition in service.get("depends_on", {}).items():
            done = "service_completed_successfully" if other == "migrate" else "service_healthy"
            assert condition["condition"] == done
    for role in ROLES:
        assert services[role]["depends_on"].keys() == {"migrate", "redis"}


def test_health_checks_metrics_and_ports_are_those_of_the_roles(services: dict[str, dict[str, Any]]) -> None:
    api, worker = services["api"], services["worker"]
    assert api["command"] == ["api", "--host", "0.0.0.0", "--port", "8000"]
    assert "127.0.0.1:8000/readyz" in api["healthcheck"]["test"][-1]
    assert f"127.0.0.1:{worker['environment']['IMPORTLEDGER_HEALTH_PORT']}/readyz" in worker["healthcheck"]["test"][-1]
    for role in ROLES:
        assert services[role]["command"][0] == role
        environment = services[role]["environment"]
        assert (environment["IMPORTLEDGER_METRICS_HOST"], environment["IMPORTLEDGER_METRICS_PORT"]) == (
            "0.0.0.0",
            "9464",
        )
    ports = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert ports == {"api": ["${IMPORTLEDGER_PUBLISH:-127.0.0.1:8000}:8000"]}
    assert len({services[role]["image"] for role in (*ROLES, "migrate")}) == 1


def test_the_roles_have_a_read_only_root_and_no_rights(services: dict[str, dict[str, Any]]) -> None:
    closed = {
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "tmpfs": ["/tmp"],
        "ulimits": {"core": 0},
    }
    for name in (*ROLES, "migrate"):
        assert services[name].items() >= closed.items()


@pytest.mark.asvs("V13.2.1", "V13.2.3")
def test_passwords_come_from_outside_and_redis_has_one(services: dict[str, dict[str, Any]]) -> None:
    configs = yaml.safe_load((ROOT / "compose.yaml").read_text())["configs"]
    assert re.search(r"^requirepass \$\{REDIS_PASSWORD:\?\}$", configs["redis"]["content"], re.M)
    for service in services.values():
        for name, value in service["environment"].items():
            assert "PASSWORD" not in name or re.fullmatch(r"\$\{\w+:\?\}", value)
            assert "://" not in value or "@" not in value or re.search(r":\$\{\w+:\?\}@", value)
        assert "PASSWORD" not in " ".join(service["command"]), "other users see a command line"
    assert [name for name in ROLES if services[name].get("volumes")] == ["relay"], "it has the checkpoints"


def test_postgres_keeps_as_much_log_and_memory_as_the_embedded_one(services: dict[str, dict[str, Any]]) -> None:
    options = set(services["postgres"]["command"])
    own = dict(EmbeddedPostgres.options())
    assert "recovery_init_sync_method=syncfs" in options, "Linux runs containers, whatever this machine is"
    same = "max_wal_size wal_compression wal_init_zero default_statistics_target log_min_messages log_error_verbosity"
    assert {f"{name}={own[name]}" for name in same.split()} <= options
    assert services["postgres"]["environment"].items() >= MALLOC.items()


@pytest.mark.promise("every-file-deploy-compose")
@pytest.mark.skipif(shutil.which("docker") is None, reason="there is no docker here")
def test_docker_accepts_the_file(tmp_path: Path) -> None:
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
