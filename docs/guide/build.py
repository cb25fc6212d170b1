"""Builds the guide from README.md and docs/ into api/guide/: `python docs/guide/build.py [--strict]`."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = HERE.parent
TARGET = SOURCES.parent / "api" / "guide"


def build(target: Path = TARGET, *, is_strict: bool = False) -> None:
    """Build into an empty folder, then replace the target. Strict: a dead link or another warning is an error."""
    with tempfile.TemporaryDirectory() as folder:
        pages = Path(folder) / "guide"
        generator = [sys.executable, "-m", "sphinx", "-q", "-b", "html", *(["-W", "--keep-going"] if is_strict else [])]
        folders = ["-c", str(HERE), "-d", str(Path(folder) / "doctrees"), str(SOURCES), str(pages)]
        subprocess.run([*generator, *folders], check=True)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(pages, target, ignore=shutil.ignore_patterns("_sources", ".buildinfo*", "objects.inv", "*.map"))


if __name__ == "__main__":
    sys.path.insert(0, str(SOURCES.parent))
    from telemetry.log import begin_process

    begin_process("warning")
    build(is_strict="--strict" in sys.argv)
