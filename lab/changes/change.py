"""A change in a patch file: a title, its tests, and the files that it edits."""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.support.folders import ROOT

FOLDER = ROOT / "lab" / "changes"
TABLE = ROOT / "docs" / "how-to" / "develop.md"
GENERATED = (
    "docs/openapi.json",
    *(f"docs/reference/{page}.md" for page in ("errors", "fields", "verbs")),
)
"""Files that `python -m checks.generated` and `python -m cli.generated` write."""

APPLY = ("apply", "--unidiff-zero")
"""Command of git that applies a patch. Line numbers do not matter: a hunk names lines that occur once in their file."""

_ROW = re.compile(r"^\| [^|]+ \(`(?P<patch>\w+\.patch)`\) \| (?P<files>\d+) \|", re.MULTILINE)


@dataclass(frozen=True)
class Change:
    """A patch: `title` is its first line, `tests` stand after `Tests:`, `files` are those that it adds or edits."""

    patch: Path
    title: str
    tests: tuple[str, ...]
    files: tuple[str, ...]


def changes() -> list[Change]:
    """Return every change in this folder, sorted by name."""
    return [change_of(patch, patch.read_text()) for patch in sorted(FOLDER.glob("*.patch"))]


def change_of(patch: Path, text: str) -> Change:
    """Parse a patch. Pure. Raises ValueError for one without tests or files."""
    description = text.partition("diff --git ")[0]
    tests = re.search(r"^Tests: (.+?)\n\n", description, re.MULTILINE | re.DOTALL)
    files = re.findall(r"^diff --git a/\S+ b/(\S+)$", text, re.MULTILINE)
    if tests is None or not files:
        raise ValueError(f"{patch}: a change names its tests, and touches a file")
    return Change(patch, description.partition("\n")[0], tuple(tests[1].split()), tuple(files))


def promised() -> dict[str, int]:
    """Return the number of files that each change may touch, by its patch, from docs/how-to/develop.md."""
    return {row["patch"]: int(row["files"]) for row in _ROW.finditer(TABLE.read_text())}
