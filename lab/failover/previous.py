"""Code of the previous version, from the repository's history, in a folder. It runs in the same environment."""

import subprocess
from pathlib import Path

from tests.support.folders import ROOT


class VersionNotFound(Exception):
    """The history has no usable previous version; the message is the reason."""


def checked_out_version(folder: Path, named: str = "") -> Path:
    """Write the code of the named version, or of the last one with another schema, to a new folder, and return it.

    Raises VersionNotFound, also if its migrations were edited since.
    """
    git = ["git", "-C", str(ROOT)]
    if not named:
        words = ["log", "-1", "--format=%H", "--diff-filter=A", "--", "eventstore/operations/migrations"]
        found = _run([*git, *words])
        if found.returncode != 0 or not found.stdout.strip():
            raise VersionNotFound("git knows no version of another schema")
        named = f"{found.stdout.decode().strip()}^"
    edited = _run([*git, "diff", "--name-only", "--diff-filter=a", named, "--", "eventstore/operations/migrations"])
    if edited.stdout.strip():
        raise VersionNotFound(f"migrations have been edited since {named}")
    archive = _run([*git, "archive", "--format=tar", named])
    if archive.returncode != 0:
        raise VersionNotFound(archive.stderr.decode().strip())
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


def _run(command: list[str]) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise VersionNotFound("there is no git") from error
