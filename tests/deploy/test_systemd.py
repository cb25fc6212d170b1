"""The units of deploy/systemd: checked by systemd's tools, hardened, with existing roles and settings."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from cli.service.settings import Settings
from cli.verbs import VERBS

UNITS = Path(__file__).parent.parent.parent / "deploy" / "systemd"
PROMETHEUS = UNITS.parent / "prometheus" / "prometheus.yml"
SERVICES = sorted(UNITS.glob("*.service"))
ROLES = {"api", "relay", "worker"}
EXPOSURE_MAX = "20"
"""Largest exposure by `systemd-analyze security` [tenths]. It rates 20 as OK, and a unit without protection 96."""

analyzed = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments], cwd=UNITS, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.promise("every-file-deploy-compose")
@analyzed
@pytest.mark.parametrize("unit", [*SERVICES, *UNITS.glob("*.target")], ids=lambda path: path.name)
def test_a_unit_is_valid(unit: Path) -> None:
    verified = analyze("verify", "--man=no", f"./{unit.name}")
    complaints = [line for line in verified.stderr.splitlines() if line.startswith(unit.stem)]
    assert (verified.returncode, complaints) == (0, []), verified.stderr


@pytest.mark.promise("every-file-deploy-compose")
@pytest.mark.api_top_10("API8")
@analyzed
@pytest.mark.parametrize("unit", SERVICES, ids=lambda path: path.name)
def test_a_service_is_exposed_to_little(unit: Path) -> None:
    judged = analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", "--no-pager", f"./{unit.name}")
    if "unrecognized option" in judged.stderr:
        pytest.skip("this systemd-analyze cannot judge files")
    assert judged.returncode == 0, judged.stdout[-2000:] + judged.stderr


def test_each_role_has_a_unit_that_belongs_to_the_target() -> None:
    assert {unit.stem for unit in SERVICES} == {f"importledger-{name}" for name in {*ROLES, "migrate"}}
    for role in ROLES:
        text = (UNITS / f"importledger-{role}.service").read_text()
        assert re.search(rf"^ExecStart=/usr/bin/env importledger {role}\b", text, re.M)
        assert role in VERBS
        for line in ("PartOf=importledger.target", "WantedBy=importledger.target", "Restart=always"):
            assert line in text.splitlines()


@pytest.mark.promise("metrics-port-their-own")
def test_the_roles_of_a_machine_show_their_metrics_where_prometheus_looks() -> None:
    units = [(UNITS / f"importledger-{role}.service").read_text() for role in sorted(ROLES)]
    ports = [re.findall(r"^Environment=IMPORTLEDGER_METRICS_PORT=(\d+)$", text, re.M) for text in units]
    [job] = yaml.safe_load(PROMETHEUS.read_text())["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"127.0.0.1:{port}" for [port] in ports]}]


@pytest.mark.promise("every-file-deploy-compose")
@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="there is no systemd-sysusers here")
def test_the_user_of_the_roles_is_created(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    made = subprocess.run(
        ["systemd-sysusers", f"--root={tmp_path}", str(UNITS / "importledger.sysusers.conf")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    [user] = (tmp_path / "etc" / "passwd").read_text().splitlines()
    assert user.startswith("importledger:x:")
    assert user.endswith(":/var/lib/importledger:/usr/sbin/nologin")


def test_units_have_no_root_and_no_password_and_the_relay_alone_has_the_checkpoints() -> None:
    for unit in SERVICES:
        text = unit.read_text()
        is_closed = "InaccessiblePaths=-/var/lib/importledger/checkpoints" in text
        assert is_closed == (unit.stem != "importledger-relay")
        assert {"User=importledger", "LimitCORE=0"} <= set(text.splitlines())
        assert "PASSWORD" not in text


def test_the_examples_of_settings_are_valid() -> None:
    environment: dict[str, str] = {}
    for name in (
        "importledger.env.example",
        "worker.env.example",
        "api.env.example",
        "relay.env.example",
        "admin.env.example",
    ):
        for line in (UNITS / name).read_text().splitlines():
            if match := re.fullmatch(r'(?:# )?([A-Z_]+)="?([^"]*)"?', line):
                environment[match[1]] = (
                    match[2]
                    .replace("TOKEN_KEY", "k" * 32)
                    .replace("REQUEST_KEY", "k" * 32)
                    .replace("SEALING_KEY", "A" * 43)
                )
    settings = Settings.from_environment(environment)
    settings.refuse_incomplete()
    assert settings.database_admin_url is not None
    document = (UNITS.parent.parent / "docs" / "reference" / "settings.md").read_text()
    assert [name for name in environment if name not in document and not name.startswith("API_")] == []
