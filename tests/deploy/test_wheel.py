"""The wheel, in a clean environment: what a user installs serves, with all that belongs to it.

It takes minutes and the package index, so `make release-check` runs it, and `make test` does not.
"""

import json
import os
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
from tests.support.running import free_port, is_ready, wait_for

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.release


def run(*command: str, **environment: str) -> str:
    ended = subprocess.run(
        command, env=clean() | environment, cwd="/", capture_output=True, text=True, check=False, timeout=900
    )
    assert ended.returncode == 0, f"{' '.join(command)}\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}"
    return ended.stdout


def clean() -> dict[str, str]:
    """This environment without what would lead to the sources."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


@pytest.fixture(scope="module")
def wheel() -> Iterator[Path]:
    with temporary_folder() as folder:
        run(
            sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder),
            str(ROOT),
        )  # fmt: skip
        [made] = folder.glob("importledger-*.whl")
        yield made


def installed(command: list[str], wanted: Path) -> None:
    """Run an installation. Without a package index, the test says so."""
    ended = subprocess.run(
        [*command, str(wanted)], env=clean(), cwd="/", capture_output=True, text=True, check=False, timeout=900
    )
    if ended.returncode and "No matching distribution" in ended.stderr:
        pytest.skip("the package index cannot be reached from here")
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]


def test_everything_that_belongs_to_it_is_in_the_wheel(wheel: Path) -> None:
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


def test_a_clean_environment_with_pip_serves_and_takes_an_account(wheel: Path) -> None:
    with temporary_folder() as folder:
        venv.create(folder / "clean", with_pip=True)
        installed([str(folder / "clean" / "bin" / "python"), "-m", "pip", "install", "-q"], wheel)
        serves(folder / "clean" / "bin" / "importledger", folder)
        assert (folder / "clean" / "share" / "man" / "man1" / "importledger-verify.1").exists()


def test_pipx_installs_the_command(wheel: Path) -> None:
    with temporary_folder() as folder:
        venv.create(folder / "tool", with_pip=True)
        installed([str(folder / "tool" / "bin" / "python"), "-m", "pip", "install", "-q"], Path("pipx"))
        places = {f"PIPX_{name}": str(folder / name.lower()) for name in ("HOME", "BIN_DIR", "MAN_DIR")}
        run(str(folder / "tool" / "bin" / "pipx"), "install", "--python", sys.executable, str(wheel), **places)
        assert "version" in run(str(folder / "bin_dir" / "importledger"), "--version")
        assert "importledger" in run(str(folder / "bin_dir" / "importledger"), "completion", "bash")
        assert (folder / "man_dir" / "man1" / "importledger.1").exists()


def serves(program: Path, folder: Path) -> None:
    """`importledger up` of the installation: ready, with its pages, and the way of an account through it."""
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
            place = {"IMPORTLEDGER_DATA_DIR": str(data)}
            run(str(program), "supplier", "create", "NORDWIND", **place)
            key = json.loads(run(str(program), "key", "create", "N", "--supplier", "NORDWIND", "--json", **place))
            with urllib.request.urlopen(f"{base}/docs/account.json", timeout=30) as answer:
                body = answer.read()
            request = urllib.request.Request(
                f"{base}/v2/data-import/accounts/", data=body, method="POST",
                headers={"Authorization": f"Token {key['api_key']}", "Content-Type": "application/json"},
            )  # fmt: skip
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert (answer.status, answer.read()) == (201, b"{}")
            told = json.loads(run(str(program), "status", "NORDWIND", "--json", **place))
            assert told
        finally:
            process.terminate()
            process.wait(60)
