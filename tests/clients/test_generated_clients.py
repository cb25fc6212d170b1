"""Clients that third-party generators make from the description: compiled strictly, and run against a service.

It needs minutes, npm and the package registries, so `make release-check` runs it, and `make test` does not.
"""

import json
import os
import shutil
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checks.generated import CONTRACT
from tests.support.folders import temporary_folder
from tests.support.packages import fetched, run
from tests.support.running import RunningService

HERE = Path(__file__).parent
REQUIREMENTS = HERE.parent.parent / "requirements" / "clients.txt"
pytestmark = pytest.mark.release


@pytest.fixture(scope="module")
def node() -> Iterator[Path]:
    """A folder with the pinned packages of npm, and the description."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("npm and node are not on this machine")
    with temporary_folder() as folder:
        for file in HERE.iterdir():
            if file.is_file() and file.suffix != ".py":
                shutil.copy(file, folder)
        shutil.copy(CONTRACT, folder)
        fetched("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", folder=folder)
        yield folder


@pytest.fixture(scope="module")
def python() -> Iterator[tuple[Path, Path]]:
    """A folder, and the Python of an environment with the pinned generator in it."""
    with temporary_folder() as folder:
        venv.create(folder / "tool", with_pip=True)
        own = folder / "tool" / "bin" / "python"
        fetched(str(own), "-m", "pip", "install", "-q", "--require-hashes", "-r", str(REQUIREMENTS), folder=folder)
        yield folder, own


def works(printed: str) -> None:
    """Check the one line that each program prints, whatever its generator."""
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    assert found == {
        "created": 201,
        "problems": ["customers.0.family_name customer_family_name_required"],
        "status": "PROCESSED",
        "sent": True,
        "accepted": 2,
        "listed": ["1", "3"],
        "next": True,
        "run": ["wave-1", "create"],
    }


def test_linters_find_nothing_in_the_description(node: Path) -> None:
    """Spectral's `oas` rules and Redocly's recommended ones: no error and no warning."""
    found = run("node", "lint.mjs", CONTRACT.name, folder=node, environment=os.environ | {"REDOCLY_TELEMETRY": "off"})
    assert json.loads(found) == []


def test_linters_find_what_is_wrong_with_a_description(node: Path) -> None:
    description = json.loads(CONTRACT.read_text())
    del (
        description["info"]["license"],
        description["components"]["schemas"]["Account"]["properties"]["customers"]["items"],
    )
    (node / "wrong.json").write_text(json.dumps(description))
    found = run("node", "lint.mjs", "wrong.json", folder=node, environment=os.environ | {"REDOCLY_TELEMETRY": "off"})
    assert {(finding["tool"], finding["rule"]) for finding in json.loads(found)} >= {
        ("spectral", "array-items"),
        ("redocly", "info-license"),
    }


def test_generated_typescript_clients_compile_strictly_and_work(node: Path, service: RunningService) -> None:
    run("npx", "openapi-typescript", CONTRACT.name, "-o", "openapi-typescript/schema.ts", folder=node)
    run("npx", "openapi-ts", "-i", CONTRACT.name, "-o", "hey-api", "-c", "@hey-api/client-fetch", folder=node)
    run("npx", "tsc", "-p", ".", folder=node)
    for program in ("with_openapi_fetch", "with_hey_api"):
        importer = service.importer()
        works(run("node", f"out/{program}.js", service.base_url, importer.api_key, importer.supplier, folder=node))


def test_a_generated_python_client_is_well_typed_and_works(python: tuple[Path, Path], service: RunningService) -> None:
    folder, own = python
    run(
        str(own.parent / "openapi-python-client"), "generate", "--path", str(CONTRACT), "--meta", "none",
        "--fail-on-warning", "--config", str(HERE / "openapi-python-client.yml"), "--output-path", "ledger_api",
        folder=folder, environment=os.environ | {"PATH": f"{own.parent}{os.pathsep}{os.environ['PATH']}"},
    )  # fmt: skip
    program = str(shutil.copy(HERE / "with_openapi_python_client.py", folder))
    template = "[mypy]\n[mypy-ledger_api.client]\nignore_errors = true\n"  # this file is the same for every API
    (folder / "mypy.ini").write_text(template)
    run(sys.executable, "-m", "mypy", "--strict", "--python-executable", str(own), "ledger_api", program, folder=folder)
    importer = service.importer()
    works(run(str(own), program, service.base_url, importer.api_key, importer.supplier, folder=folder))
