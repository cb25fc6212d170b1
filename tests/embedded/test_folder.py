"""A data folder that cannot be used is named at the start."""

from pathlib import Path

import pytest

from embedded.folder import DataFolder, FolderInUse, FolderUnreachable
from embedded.user import RunAs


def test_a_secret_that_cannot_be_stored_leaves_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr("os.link", fail)
    with pytest.raises(PermissionError):
        DataFolder(tmp_path).secret("token_key")
    assert list((tmp_path / "secrets").iterdir()) == []


@pytest.mark.parametrize("place", ["file/below", "/proc/importledger", "/dev/null/x"])
def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderUnreachable, match="Nothing can be written to"):
        DataFolder(tmp_path / place).create(RunAs())


def test_a_folder_is_held_by_one_service(tmp_path: Path) -> None:
    first, second = DataFolder(tmp_path), DataFolder(tmp_path)
    first.lock()
    with pytest.raises(FolderInUse):
        second.lock()
    first.unlock()
    second.lock()
    second.unlock()
