"""The guide is built from the documents without a warning, such as a dead link."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_guide_is_built_without_a_warning(tmp_path: Path) -> None:
    runpy.run_path(str(ROOT / "docs" / "guide" / "build.py"))["build"](tmp_path / "guide", is_strict=True)
    assert (tmp_path / "guide" / "index.html").exists()
