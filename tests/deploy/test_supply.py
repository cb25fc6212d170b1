"""The CycloneDX bill of materials and the list of licences."""

import csv
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
AUDIT = runpy.run_path(str(DEPLOY / "audit.py"), run_name="read")
LICENCES = runpy.run_path(str(DEPLOY / "licences.py"), run_name="read")


@pytest.mark.promise("every-file-deploy-compose")
@pytest.mark.asvs("V15.1.2", "V15.2.1")
@pytest.mark.parametrize("validation", ["--no-validate", pytest.param("--validate", marks=pytest.mark.release)])
def test_a_bill_of_materials_names_every_package_with_its_licence(tmp_path: Path, validation: str) -> None:
    """Validation of the format runs in releases only: it takes twenty times as long as the rest."""
    bill, listed = tmp_path / "sbom.cdx.json", tmp_path / "licences.csv"
    made = subprocess.run(
        [str(Path(sys.executable).parent / "cyclonedx-py"), "environment", validation,
         "--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible", "-o", str(bill), sys.executable],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    content = json.loads(bill.read_text())
    assert content["bomFormat"] == "CycloneDX"
    assert content["metadata"]["component"]["name"] == "importledger"
    subprocess.run(
        [sys.executable, str(DEPLOY / "licences.py"), str(bill), str(listed)], capture_output=True, check=False
    )
    with listed.open(newline="") as file:
        licences = {row["name"]: row["licence"] for row in csv.DictReader(file)}
    pinned = (ROOT / "requirements" / "runtime.txt").read_text().splitlines()
    always = {re.split(r"\[|==", line)[0] for line in pinned if "==" in line and ";" not in line}
    assert always - {name.lower().replace("_", "-") for name in licences} == set()
    assert licences["psycopg"]


def test_a_component_without_a_licence_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bill: dict[str, Any] = {
        "components": [
            {"name": "b", "version": "1", "licenses": [{"license": {"id": "MIT"}}, {"license": {"name": "MIT\nlong"}}]},
            {"name": "c", "licenses": [{"expression": "Apache-2.0 OR MIT"}]},
            {"name": "a"},
        ]
    }
    (tmp_path / "bill").write_text(json.dumps(bill))
    assert LICENCES["main"](tmp_path / "bill", tmp_path / "list") == 1
    assert (tmp_path / "list").read_text() == "name,version,licence\na,,\nb,1,MIT\nc,,Apache-2.0 OR MIT\n"
    assert "No licence is known for a." in capsys.readouterr().out


@pytest.mark.asvs("V15.2.1")
@pytest.mark.parametrize(
    ("answer", "code", "sentence"),
    [
        ('{"dependencies": [{"name": "a", "version": "1", "vulns": []}]}', 0, "1 packages were looked up: 0 known"),
        (
            '{"dependencies": [{"name": "a", "version": "1", "vulns": [{"id": "X-1", "fix_versions": ["2"]}]}]}',
            1,
            "a 1: X-1, fixed in 2",
        ),
        (
            '{"dependencies": [{"name": "a", "skip_reason": "not there"}]}',
            2,
            "None of the 1 packages could be looked up (not there).",
        ),
        (
            '{"dependencies": [{"name": "a", "skip_reason": "not there"}, {"name": "b", "version": "1"}]}',
            2,
            "1 packages could not be looked up (not there): a.",
        ),
        ("", 2, "The database of vulnerabilities could not be read: no route to the source"),
    ],
)
def test_an_audit_that_could_not_look_up_fails_and_gives_the_reason(
    answer: str, code: int, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = subprocess.CompletedProcess([], 0, answer, "no route to the source\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ended)
    assert AUDIT["main"]("requirements/runtime.txt") == code
    assert sentence in capsys.readouterr().out
