"""Build steps of a wheel: the guide in api/guide/, manual pages and completions. All else is in pyproject.toml."""

import importlib.util
import os
import runpy
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
GUIDE = ROOT / "docs" / "guide" / "build.py"
MANUALS = ROOT / "docs" / "man" / "build.py"
SHARED = Path("build") / "shared"


def are_there(*modules: str) -> bool:
    return all(importlib.util.find_spec(name) for name in modules)


class BuildWithGuide(build_py):
    """Build step. Without Sphinx or docs/ the package has no guide, and the service reports it."""

    def run(self) -> None:
        if self.editable_mode:  # `make setup` builds the guide; manual pages are not installed
            return
        if GUIDE.exists() and are_there("sphinx", "myst_parser", "furo"):
            runpy.run_path(str(GUIDE))["build"]()
        if MANUALS.exists() and are_there("click_man", "click", "structlog", "msgspec"):
            # In a process of its own, since it imports the modules of the command, which read their version.
            self.run_command("egg_info")
            subprocess.run([sys.executable, str(MANUALS), str(SHARED)], cwd=ROOT, env=os.environ, check=True)
            files = [path for path in (ROOT / SHARED).rglob("*") if path.is_file()]
            self.distribution.data_files = [
                (str(path.parent.relative_to(ROOT / SHARED)), [str(path.relative_to(ROOT))]) for path in sorted(files)
            ]
        super().run()


setup(cmdclass={"build_py": BuildWithGuide})
