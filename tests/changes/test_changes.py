"""The examples of usual changes fit the present tree, and touch as many files as the developer guide says.

`make changes`, which takes minutes, shows that they also work.
"""

import ast
import importlib
import re
import subprocess

import pytest

from lab.changes.change import APPLY, GENERATED, Change, change_of, changes, promised
from tests.support.folders import ROOT

CHANGES = changes()


def test_the_guide_lists_every_change_with_its_files() -> None:
    assert promised() == {change.patch.name: len(change.files) for change in CHANGES}
    assert len(CHANGES) == 7


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.patch.stem)
def test_a_change_fits_the_tree_and_names_its_tests(change: Change) -> None:
    fits = subprocess.run(
        ["git", *APPLY, "--check", change.patch], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (fits.returncode, fits.stderr) == (0, "")
    assert not {*change.files} & {*GENERATED}
    assert all((ROOT / test).exists() or test in change.files for test in change.tests)


def diffs_of(change: Change) -> list[tuple[str, str]]:
    """Return (file, its part of the patch)."""
    parts = re.split(r"^diff --git a/\S+ b/(\S+)\n", change.patch.read_text(), flags=re.MULTILINE)[1:]
    return [*zip(parts[::2], parts[1::2], strict=True)]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.patch.stem)
def test_each_hunk_finds_its_place_by_lines_that_occur_once_and_are_no_prose(change: Change) -> None:
    for file, diff in diffs_of(change):
        for hunk in re.split(r"^@@ .+\n", diff, flags=re.MULTILINE)[1:]:
            found_by = "".join(line[1:] for line in hunk.splitlines(keepends=True) if line.startswith((" ", "-")))
            if (ROOT / file).exists():
                assert f"\n{(ROOT / file).read_text()}".count(f"\n{found_by}") == 1, (file, found_by)
            assert '"""' not in found_by, (file, found_by)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.patch.stem)
def test_names_that_a_new_file_imports_exist(change: Change) -> None:
    new = [diff.partition("@@\n")[2] for file, diff in diffs_of(change) if "new file" in diff and file.endswith(".py")]
    for diff in new:
        tree = ast.parse("".join(line[1:] + "\n" for line in diff.splitlines() if line.startswith("+")))
        for node in (node for node in tree.body if isinstance(node, ast.ImportFrom)):
            assert node.module is not None
            if f"{node.module.replace('.', '/')}.py" not in change.files:
                module = importlib.import_module(node.module)
                assert [name.name for name in node.names if not hasattr(module, name.name)] == [], node.module


def test_a_change_without_tests_is_refused() -> None:
    patch = CHANGES[0].patch
    with pytest.raises(ValueError, match="names its tests"):
        change_of(patch, "A title.\n\ndiff --git a/x b/x\n")
    assert change_of(patch, "A title.\n\nTests: tests/a\ntests/b\n\ndiff --git a/x b/x\n") == Change(
        patch, "A title.", ("tests/a", "tests/b"), ("x",)
    )
