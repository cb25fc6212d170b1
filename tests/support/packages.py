"""Packages from registries: a test is skipped if the registry does not answer, and fails if the build fails."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

UNREACHABLE = re.compile(
    r"ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EAI_AGAIN|\bE403\b|\bE404\b"  # npm
    r"|No matching distribution found|Connection to \S+ timed out"  # pip
    r"|Could not resolve|Unable to connect|Failed to fetch"  # apt, and mmdebstrap through it
)
"""Words of package managers for a registry that does not answer, or does not have a package."""


def run(*command: str, folder: Path = Path("/"), environment: Mapping[str, str] = os.environ) -> str:
    """Run a command and return what it prints. It must succeed."""
    return _output(command, _ended(command, folder, environment))


def fetched(*command: str, folder: Path = Path("/"), environment: Mapping[str, str] = os.environ) -> str:
    """Run a command that fetches packages. Skip the test where they cannot be had; fail it for any other reason."""
    ended = _ended(command, folder, environment)
    if ended.returncode and (found := UNREACHABLE.search(ended.stderr)):
        pytest.skip(f"packages cannot be fetched here: {command[0]} says {found[0]}")
    return _output(command, ended)


def _ended(command: tuple[str, ...], folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=900
    )


def _output(command: tuple[str, ...], ended: subprocess.CompletedProcess[str]) -> str:
    assert ended.returncode == 0, f"{' '.join(command)}\n{ended.stdout[-3000:]}{ended.stderr[-3000:]}"
    return ended.stdout
