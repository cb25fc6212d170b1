"""The examples of usual changes fit the present tree, and touch as many files as the developer guide says.

`make changes`, which takes minutes, shows that they also work.
"""

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


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.patch.stem)
def test_each_hunk_finds_its_place_by_lines_that_occur_once_and_are_no_prose(change: Change) -> None:
    parts = re.split(r"^diff --git a/\S+ b/(\S+)\n", change.patch.read_text(), flags=re.MULTILINE)[1:]
    for file, diff in zip(parts[::2], parts[1::2], strict=True):
        for hunk in re.split(r"^@@ .+\n", diff, flags=re.MULTILINE)[1:]:
            found_by = "".join(line[1:] for line in hunk.splitlines(keepends=True) if line.startswith((" ", "-")))
            if (ROOT / file).exists():
                assert f"\n{(ROOT / file).read_text()}".count(f"\n{found_by}") == 1, (file, found_by)
            assert '"""' not in found_by, (file, found_by)


def test_a_change_without_tests_is_refused() -> None:
    patch = CHANGES[0].patch
    with pytest.raises(ValueError, match="names its tests"):
        change_of(patch, "A title.\n\ndiff --git a/x b/x\n")
    assert change_of(patch, "A title.\n\nTests: tests/a\ntests/b\n\ndiff --git a/x b/x\n") == Change(
        patch, "A title.", ("tests/a", "tests/b"), ("x",)
    )
