"""The version before this one, from the repository's history: its code in a folder, for the same environment."""

import subprocess
from pathlib import Path

from tests.support.folders import ROOT


class NoFormerVersion(Exception):
    """There is no history to take it from; the message says so."""


def former_version(place: Path, named: str = "") -> Path:
    """A new folder with the code that git knows by this name, or of the last version that had another schema.

    Raises NoFormerVersion, also where its migrations have been edited since.
    """
    git = ["git", "-C", str(ROOT)]
    if not named:
        words = ["log", "-1", "--format=%H", "--diff-filter=A", "--", "eventstore/operations/migrations"]
        found = _run([*git, *words])
        if found.returncode != 0 or not found.stdout.strip():
            raise NoFormerVersion("git knows no version of another schema")
        named = f"{found.stdout.decode().strip()}^"
    edited = _run([*git, "diff", "--name-only", "--diff-filter=a", named, "--", "eventstore/operations/migrations"])
    if edited.stdout.strip():
        raise NoFormerVersion(f"migrations have been edited since {named}")
    archive = _run([*git, "archive", "--format=tar", named])
    if archive.returncode != 0:
        raise NoFormerVersion(archive.stderr.decode().strip())
    place.mkdir()
    subprocess.run(["tar", "-x", "-C", str(place)], input=archive.stdout, check=True)
    return place


def _run(command: list[str]) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise NoFormerVersion("there is no git") from error
