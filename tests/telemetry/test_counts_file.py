"""Counting in files survives a full disk, and the file is complete afterwards."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.mmap_dict import MmapedDict

from telemetry.counts_file import CountsFile
from tests.support.folders import temporary_folder


def read(file: Path) -> dict[str, float]:
    return {key: value for key, value, _, _ in MmapedDict.read_all_values_from_file(str(file))}  # type: ignore[no-untyped-call]


@pytest.mark.promise("counted-every-request-counted")
@given(st.lists(st.tuples(st.text(max_size=40), st.floats(allow_nan=False)), max_size=60))
def test_the_client_reads_what_was_counted_and_a_further_process_continues_it(values: list[tuple[str, float]]) -> None:
    before: dict[str, float] = {}
    with temporary_folder() as folder:
        file = folder / "counter_api-1.db"
        for half in (values[: len(values) // 2], values[len(values) // 2 :]):
            counts = CountsFile(str(file))
            for key, value in half:
                counts.write_value(key, value, 0.0)
            assert read(file) == before if file.exists() else not before
            counts.write()
            before |= dict(half)
        assert read(file) == dict(values)


@pytest.mark.parametrize(
    "damaged", [b"", b"\0", bytes(8), b"\xff\xff\xff\x7f" + bytes(40), b"\x40" + bytes(3), b"x" * 99]
)
def test_a_damaged_file_begins_again_at_zero(folder: Path, damaged: bytes) -> None:
    file = folder / "counter_api-1.db"
    file.write_bytes(damaged)
    counts = CountsFile(str(file))
    counts.write_value("a", 1.0, 0.0)
    counts.write()
    assert read(file) == {"a": 1.0}


@pytest.mark.promise("full-disk-ends-process")
def test_what_could_not_be_written_is_written_the_next_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = folder / "counter_api-1.db"
    counts = CountsFile(str(file))
    counts.write_value("a", 1.0, 0.0)
    with monkeypatch.context() as disk:
        disk.setattr(os, "pwrite", is_full)
        counts.write()
    assert file.read_bytes() == b""
    counts.write()
    assert read(file) == {"a": 1.0}
