"""Secrets of roles in every deployment: those that a role needs, and no other."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.service.settings import SECRETS
from tests.support.running import RunningService

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
REQUESTS, TOKENS, SEALING = (f"IMPORTLEDGER_{name}_KEY" for name in ("REQUEST", "TOKEN", "SEALING"))
OWNER, CHECKPOINTS, MAIL = "DATABASE_ADMIN_URL", "IMPORTLEDGER_CHECKPOINTS_URL", "IMPORTLEDGER_SMTP_URL"
WATCHED = {*SECRETS, CHECKPOINTS} - {"DATABASE_URL", "REDIS_URL"}
"""Secrets of some roles. Every role has its database role and Redis as well."""
NEEDED = {
    "api": {TOKENS, REQUESTS},
    "relay": {OWNER, REQUESTS, SEALING, CHECKPOINTS},
    "worker": {MAIL},
    "migrate": {OWNER},
}


def _watched(environment: Mapping[str, Any]) -> set[str]:
    return {name.removesuffix("_FILE") for name, value in environment.items() if value} & WATCHED


def of_compose(role: str) -> set[str]:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    service = compose["services"][role]
    given = {f"IMPORTLEDGER_{name.upper()}" for name in service.get("secrets", ())}
    environment = _watched(service["environment"])
    assert given == {name for name in environment if f"{name}_FILE" in service["environment"]}
    assert bool(service.get("volumes")) == (CHECKPOINTS in environment)
    return environment


def of_kubernetes(role: str) -> set[str]:
    document = (DEPLOY / "kubernetes" / "kustomization.yaml").read_text()
    secrets = {
        name: set(re.findall(r"[A-Z_]{6,}", held)) for name, held in re.findall(r"`([\w-]+)` \(([^)]*)\)", document)
    }
    [configuration, _] = yaml.safe_load_all((DEPLOY / "kubernetes" / "configuration.yaml").read_text())
    pods = next(yaml.safe_load_all((DEPLOY / "kubernetes" / f"{role}.yaml").read_text()))
    [container] = pods["spec"]["template"]["spec"]["containers"]
    names = {variable["name"] for variable in container.get("env", ())} | configuration["data"].keys()
    for source in container["envFrom"]:
        names |= secrets.get(source.get("secretRef", {}).get("name"), set())
    return {str(name) for name in names & WATCHED}


def of_systemd(role: str) -> set[str]:
    unit = (DEPLOY / "systemd" / f"importledger-{role}.service").read_text()
    names: set[str] = set()
    for file in re.findall(r"^EnvironmentFile=/etc/importledger/(\S+)$", unit, re.M):
        names |= set(re.findall(r"^([A-Z_]+)=", (DEPLOY / "systemd" / f"{file}.example").read_text(), re.M))
    assert ("InaccessiblePaths=-/var/lib/importledger/checkpoints" in unit) == (CHECKPOINTS not in names)
    return names & WATCHED


@pytest.mark.promise("secrets-of-each-role")
@pytest.mark.asvs("V13.2.2", "V13.3.2")
@pytest.mark.parametrize("given", [of_compose, of_kubernetes, of_systemd])
@pytest.mark.parametrize("role", NEEDED)
def test_a_role_is_given_the_secrets_that_it_needs_and_no_other(given: Callable[[str], set[str]], role: str) -> None:
    assert given(role) | {MAIL} == NEEDED[role] | {MAIL}, "where there is a mail server, workers know it"
    assert MAIL not in given(role) or role == "worker"


@pytest.mark.promise("secrets-of-each-role")
@pytest.mark.asvs("V13.3.2")
def test_up_gives_each_role_the_secrets_that_it_needs_and_no_other(service: RunningService) -> None:
    own = service.environment["IMPORTLEDGER_DATA_DIR"]
    given: dict[str, set[str]] = {}
    for process in Path("/proc").glob("[0-9]*/environ"):
        try:
            lines = process.read_text("utf-8", "replace").split("\0")
        except OSError:
            continue
        environment = dict(line.split("=", 1) for line in lines if "=" in line)
        name = environment.get("IMPORTLEDGER_ROLE_NAME")
        if name and environment.get("IMPORTLEDGER_DATA_DIR") == own:
            given.setdefault(name.partition("-")[0], set()).update(_watched(environment))
    expected = {role: NEEDED[role] - {MAIL, CHECKPOINTS, SEALING} for role in ("api", "relay", "worker")}
    assert given == expected, "the sealing key stays in the data folder"
