"""The guide is built from the documents without a warning, such as a dead link. Its pages are short."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAX_PAGE_BYTES = 15 * 1024
"""Bytes of a page that is read from its beginning to its end. Reference pages are looked up and may be longer."""


def test_the_guide_is_built_without_a_warning(tmp_path: Path) -> None:
    runpy.run_path(str(ROOT / "docs" / "guide" / "build.py"))["build"](tmp_path / "guide", is_strict=True)
    assert (tmp_path / "guide" / "index.html").exists()


def test_no_page_but_reference_is_long() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    assert len(pages) > 50
    read = [page for page in pages if "reference" not in page.parts]
    assert [page.name for page in read if page.stat().st_size > MAX_PAGE_BYTES] == []
