"""Unfinished files of importbook: they replace nothing before they are complete, and no process leaves them behind."""

import errno
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from importledger_client.unfinished import private_folder, write_whole
from importledger_client.value_list import CodeValue, write_list
from tests.support.importbook import COMMAND, environment
from tests.support.mapped_book import mapping_at


def old(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "rows.csv").write_text("Groß", encoding="utf-8")
    os.utime(folder, (time.time() - 3600,) * 2)
    return folder


def test_folders_of_killed_processes_are_deleted_and_those_in_use_are_not(tmp_path: Path) -> None:
    elsewhere = old(tmp_path / "elsewhere")
    (tmp_path / "importbook-link").symlink_to(elsewhere)
    killed, young = old(tmp_path / "importbook-killed"), tmp_path / "importbook-young"
    young.mkdir()
    with private_folder("importbook-", tmp_path) as first:
        assert (first.stat().st_mode & 0o777, killed.exists()) == (0o700, False)
        old(first)
        with private_folder("importbook-", tmp_path):
            assert (first / "rows.csv").exists()
    assert not first.exists()
    assert (young.exists(), (elsewhere / "rows.csv").exists()) == (True, True)


def test_a_file_that_cannot_be_written_leaves_the_earlier_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> int:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "m.json"
    write_whole(path, b"earlier")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(OSError, match="No space left"):
            write_whole(path, b"later")
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"earlier", [path])
    write_whole(path, b"later")
    assert path.read_bytes() == b"later"


@pytest.mark.parametrize("is_list", [False, True])
def test_a_file_that_several_write_at_once_is_always_whole(tmp_path: Path, *, is_list: bool) -> None:
    path = tmp_path / "file"

    def write(writer: int) -> bytes:
        for _ in range(20):
            if is_list:
                write_list(path, [CodeValue("t", "x" * 1000, writer, "K1")], {})
            else:
                write_whole(path, b"x" * 1000 + b"%d" % writer)
        return path.read_bytes()

    with ThreadPoolExecutor(4) as pool:
        found = {*pool.map(write, range(4)), path.read_bytes()}
    assert len({content.rstrip(b"\r\n").rstrip(b"0123") for content in found}) == 1
    assert [*tmp_path.iterdir()] == [path]


def test_a_pipe_is_written_and_not_replaced(tmp_path: Path) -> None:
    read, write = os.pipe()
    write_whole(Path(f"/dev/fd/{write}"), b"content")
    os.close(write)
    with open(read, "rb") as pipe:
        assert pipe.read() == b"content"


def test_a_reader_who_stops_reading_leaves_no_rows_among_the_temporary_files(tmp_path: Path) -> None:
    mapping_at(tmp_path, {"external_account_number": "Nr"})
    (tmp_path / "kunden.csv").write_text("Nr\nK1\nK2\n", encoding="utf-8")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        [*COMMAND, "map", "check", "m.yaml", "kunden.csv"],
        cwd=tmp_path,
        env=environment({"TMPDIR": str(temporary)}),
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert (ended.returncode, ended.stderr, list(temporary.iterdir())) == (141, b"", [])
