"""Wheel in a clean environment: the installed service runs, with all its files.

It takes minutes and the package index, so `make release-check` runs it, and `make test` does not.
"""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventstore.log.compression import DICTIONARY
from eventstore.operations.migrate import MIGRATIONS
from tests.support.folders import temporary_folder
from tests.support.packages import fetched, run
from tests.support.running import free_port, is_ready, wait_for

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.release


def clean() -> dict[str, str]:
    """Environment variables without those that lead to the sources."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


@pytest.fixture(scope="module")
def wheel() -> Iterator[Path]:
    """Build the wheel from a copy of the tracked files, since a build writes into its folder."""
    with temporary_folder() as folder:
        for name in run("git", "-C", str(ROOT), "ls-files").splitlines():
            (folder / "sources" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "sources" / name)
        run(
            sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder),
            str(folder / "sources"), environment=clean(),
        )  # fmt: skip
        [made] = folder.glob("importledger-*.whl")
        yield made


@pytest.mark.asvs("V13.4.1", "V15.2.3")
def test_the_wheel_has_all_files(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    shared = {name.partition(".data/data/")[2] for name in names}
    assert {f"eventstore/operations/migrations/{file.name}" for file in MIGRATIONS.glob("*.sql")} <= names
    assert f"eventstore/log/{DICTIONARY.name}" in names
    tracked = run("git", "-C", str(ROOT), "ls-files", "api", "console").splitlines()
    assets = {name for name in tracked if not name.endswith(".py") and Path(name).name not in ("SHA256SUMS",)}
    assert sorted(assets - names) == []
    assert "api/guide/index.html" in names
    assert {"share/man/man1/importledger.1", "share/bash-completion/completions/importledger"} <= shared
    assert not [name for name in names if name.startswith(("tests/", "bench/", "docs/"))]


def test_a_clean_environment_with_pip_runs_the_service_and_imports_an_account(wheel: Path) -> None:
    with temporary_folder() as folder:
        venv.create(folder / "clean", with_pip=True)
        fetched(str(folder / "clean/bin/python"), "-m", "pip", "install", "-q", str(wheel), environment=clean())
        serves(folder / "clean" / "bin" / "importledger", folder)
        assert (folder / "clean" / "share" / "man" / "man1" / "importledger-verify.1").exists()


def serves(program: Path, folder: Path) -> None:
    """Start `importledger up` of the installation, read its pages, and import an account."""
    port, data = free_port(), folder / "data"
    base = f"http://127.0.0.1:{port}"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(program), "up", "--port", str(port), "--data-dir", str(data), "--api-processes", "1"],
            env=clean(), cwd="/", stdout=log, stderr=log,
        )  # fmt: skip
        try:
            wait_for(lambda: is_ready(base) or process.poll() is not None, "it is ready", timeout_s=120)
            assert process.poll() is None, (folder / "log").read_text()
            for page in ("/docs/", "/docs/guide/", "/docs/account.json", "/docs/assets/swagger-ui-bundle.js"):
                with urllib.request.urlopen(base + page, timeout=30) as answer:
                    assert answer.status == 200, page
            place = clean() | {"IMPORTLEDGER_DATA_DIR": str(data)}
            run(str(program), "supplier", "create", "NORDWIND", environment=place)
            key = json.loads(
                run(str(program), "key", "create", "N", "--supplier", "NORDWIND", "--json", environment=place)
            )
            with urllib.request.urlopen(f"{base}/docs/account.json", timeout=30) as answer:
                body = answer.read()
            request = urllib.request.Request(
                f"{base}/v2/data-import/accounts/", data=body, method="POST",
                headers={"Authorization": f"Token {key['api_key']}", "Content-Type": "application/json"},
            )  # fmt: skip
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert (answer.status, answer.read()) == (201, b"{}")
            status = json.loads(run(str(program), "status", "NORDWIND", "--json", environment=place))
            assert status
        finally:
            process.terminate()
            process.wait(60)
