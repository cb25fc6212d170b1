"""`make changes`: apply each usual change on a temporary branch, and check that it works.

A change is applied to the tracked files here, committed or not. Then generated files are written, and formatting, lint,
types, import contracts, pure tests and the tests of the change run. Exit code 1 if any of them fails, or if a change
touches more files than docs/how-to/develop.md says. `ONLY=endpoint` makes one.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.changes.change import APPLY, GENERATED, Change, changes, promised
from tests.support.folders import ROOT

BIN = Path(sys.executable).parent
OF_THE_HOUSE = ("checks/test_layout.py", "checks/test_repository.py", "tests/test_contract.py")
"""Tests of names, layout and documents, which every change must pass."""
BUILT = "api/guide"
"""Untracked files that the service shows; `make setup` writes them."""
_READY = ("-o", f"{sys.prefix}/.ready", "-o", f"{BUILT}/index.html")
_MAKE = ("make", "--silent", f"VENV={sys.prefix}", "ARGS=", *_READY)
"""Command that runs a target of the tree's Makefile with this environment, without the arguments of `make changes`."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make changes", description=__doc__)
    parser.add_argument("--only", default="", help="those whose name contains this")
    options = parser.parse_args()
    selected = [change for change in changes() if options.only in change.patch.stem]
    if not selected:
        sys.exit(f"No change is called so: {', '.join(change.patch.stem for change in changes())}")
    outcomes = [_is_as_promised(change) for change in selected]
    return 0 if all(outcomes) else 1


def _is_as_promised(change: Change) -> bool:
    """Apply the change, and print the files that it touches and the result.

    Return True if it works and touches no more files than docs/how-to/develop.md promises.
    """
    began = time.monotonic()
    with _branch(change.patch.stem) as tree:
        try:
            files = _made(change, tree)
            failed = _failed(change, tree)
        except subprocess.CalledProcessError as error:
            files, failed = (), f"cannot be made: {error.stderr}"
    allowed = promised().get(change.patch.name, 0)
    outcome = failed or ("works" if len(files) <= allowed else f"touches more than {allowed} files")
    print(f"{change.title} {len(files)} files, {outcome} ({time.monotonic() - began:.0f} s)", flush=True)
    print("".join(f"    {file}\n" for file in files), end="", flush=True)
    return outcome == "works"


@contextmanager
def _branch(name: str) -> Iterator[Path]:
    """Create a working tree on a new branch with a unique name. Both are removed after the block."""
    with tempfile.TemporaryDirectory(prefix=f"importledger-{name}-") as folder:
        tree, branch = Path(folder) / "tree", Path(folder).name
        commit = "HEAD"
        if uncommitted := _git(ROOT, "stash", "create"):
            tracked = f"{uncommitted}^{{tree}}"
            commit = _git(ROOT, "commit-tree", tracked, "-p", "HEAD", "-m", "Files that are not committed")
        _git(ROOT, "worktree", "add", "--quiet", "-b", branch, str(tree), commit)
        try:
            if (ROOT / BUILT).is_dir():
                shutil.copytree(ROOT / BUILT, tree / BUILT, dirs_exist_ok=True)
            yield tree
        finally:
            _git(ROOT, "worktree", "remove", "--force", str(tree))
            _git(ROOT, "branch", "--quiet", "-D", branch)


def _made(change: Change, tree: Path) -> tuple[str, ...]:
    """Apply the change, and return the files that it touches, without generated ones."""
    _git(tree, *APPLY, str(change.patch))
    for module in ("checks.generated", "cli.generated"):
        _run(tree, BIN / "python", "-m", module).check_returncode()
    _git(tree, "add", "--all")
    touched = _git(tree, "diff", "--cached", "--name-only", "HEAD").split("\n")
    return tuple(file for file in touched if file not in GENERATED)


def _failed(change: Change, tree: Path) -> str:
    """Return the failed commands with their output; empty if all pass."""
    steps: Sequence[tuple[str | Path, ...]] = (
        (*_MAKE, "check"),
        (*_MAKE, "test-fast"),
        (BIN / "python", "-m", "pytest", "-n", "2", "-q", *OF_THE_HOUSE, *change.tests),
    )
    for step in steps:
        ended = _run(tree, *step)
        if ended.returncode:
            command = " ".join(Path(part).name if isinstance(part, Path) else part for part in step)
            return f"fails at {command}:\n{ended.stdout}{ended.stderr}"
    return ""


def _run(tree: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command with the code of this tree, wherever the environment was installed from."""
    paths = os.pathsep.join((str(tree), str(tree / "importer" / "src")))
    environment = {**os.environ, "PYTHONPATH": paths, "MAKEFLAGS": ""}
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)


def _git(tree: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=tree, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
