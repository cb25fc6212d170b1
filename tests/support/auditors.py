"""Tools of an auditor: the verifier as it is built for auditors, without any of our packages."""

import runpy
import subprocess
import sys
from pathlib import Path

from tests.support.folders import ROOT

BUILD = ROOT / "deploy" / "verifier" / "build.py"


def build_zipapp(folder: Path) -> Path:
    """Build importledger-verify.pyz in the folder, as `make wheel` does."""
    built: Path = runpy.run_path(str(BUILD))["build_zipapp"](folder)
    return built


def audited(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """The verifier's answer, run alone: no packages, no environment."""
    program = folder / "importledger-verify.pyz"
    if not program.exists():
        build_zipapp(folder)
    command = [sys.executable, "-I", "-S", str(program), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False, env={})
