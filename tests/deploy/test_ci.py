"""`.ci/run`, which every change must pass, fails with each of its parts, and names tools that are missing."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("failing", ["check", "test", "--release"])
def test_the_run_fails_where_any_of_its_parts_fails(tmp_path: Path, failing: str) -> None:
    """With another `make`, and an `apt-get` that has nothing: tools that are missing are named, and fail nothing."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    for name, text in (("make", f'case "$*" in *{failing}*) exit 3;; esac'), ("apt-get", "exit 100"), ("id", "echo 0")):
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    for name in ("bash", "dirname"):
        (tools / name).symlink_to(str(shutil.which(name)))
    ended = subprocess.run(
        [tools / "bash", str(tmp_path / ".ci" / "run")], env={"PATH": str(tools)}, capture_output=True, text=True
    )
    assert ended.returncode == 3, ended.stdout + ended.stderr
    assert ".ci/run: buildah is left out" in ended.stdout
