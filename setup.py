"""Builds the guide into api/guide/ before a wheel is made, which then serves it. All else is in pyproject.toml."""

import importlib.util
import runpy
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

BUILD = Path(__file__).parent / "docs" / "guide" / "build.py"


class BuildWithGuide(build_py):
    """Without the generator or without docs/ the package is made as it is, and the service says what is missing."""

    def run(self) -> None:
        if BUILD.exists() and all(importlib.util.find_spec(name) for name in ("sphinx", "myst_parser", "furo")):
            runpy.run_path(str(BUILD))["build"]()
        super().run()


setup(cmdclass={"build_py": BuildWithGuide})
