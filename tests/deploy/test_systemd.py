"""The units of deploy/systemd: whole by systemd's own tools, hardened, and of roles and settings that there are."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cli.settings import Settings
from cli.verbs import VERBS

UNITS = Path(__file__).parent.parent.parent / "deploy" / "systemd"
SERVICES = sorted(UNITS.glob("*.service"))
ROLES = {"api", "relay", "worker"}
EXPOSURE_MAX = "20"
"""In tenths: `systemd-analyze security` calls 2.0 OK, and a unit without any protection 9.6."""

analyzed = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments], cwd=UNITS, capture_output=True, text=True, check=False, timeout=120
    )


@analyzed
@pytest.mark.parametrize("unit", [*SERVICES, *UNITS.glob("*.target")], ids=lambda path: path.name)
def test_a_unit_is_right(unit: Path) -> None:
    verified = analyze("verify", "--man=no", f"./{unit.name}")
    complaints = [line for line in verified.stderr.splitlines() if line.startswith(unit.stem)]
    assert (verified.returncode, complaints) == (0, []), verified.stderr


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


def test_only_the_migration_may_change_the_schema() -> None:
    for unit in SERVICES:
        text = unit.read_text()
        assert ("admin.env" in re.sub(r"^#.*", "", text, flags=re.M)) == (unit.stem == "importledger-migrate")
        assert "User=importledger" in text.splitlines()
        assert "PASSWORD" not in text


def test_the_examples_of_settings_are_taken() -> None:
    environment: dict[str, str] = {}
    for name in ("importledger.env.example", "admin.env.example"):
        for line in (UNITS / name).read_text().splitlines():
            if match := re.fullmatch(r'(?:# )?([A-Z_]+)="?([^"]*)"?', line):
                environment[match[1]] = match[2].replace("TOKEN_KEY", "k" * 32).replace("SEALING_KEY", "A" * 43)
    settings = Settings.from_environment(environment)
    settings.refuse_incomplete()
    assert settings.database_admin_url is not None
    told = (UNITS.parent.parent / "docs" / "operations.md").read_text()
    assert [name for name in environment if name not in told and not name.startswith("API_")] == []
