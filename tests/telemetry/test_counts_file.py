"""Counting in files survives a full disk, also if a file must grow, and the file is complete afterwards."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.mmap_dict import MmapedDict

from lab.faults.disk import NotMountable, fill, small_disk
from telemetry.counts_file import CountsFile
from tests.support.folders import temporary_folder

_ROLE = """
import sys
from telemetry.prometheus import begin_measures

counts = begin_measures("api-1", is_shared=True)
counts.refused("before")
for line in sys.stdin:
    for n in range(200):
        counts.refused(f"{line.strip()}_{n}")
        counts.answered("GET", f"/{line.strip()}/{n}/", 200, 0.1)
    counts.queued(1)
    print("counted", flush=True)
"""


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
def test_a_full_disk_ends_no_process_that_counts_and_what_it_counted_is_shown_afterwards(folder: Path) -> None:
    try:
        with small_disk(folder / "disk", size_mb=4) as disk:
            counts = disk / "metrics"
            counts.mkdir()
            environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(counts)}
            with subprocess.Popen(
                [sys.executable, "-c", _ROLE], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as role:
                count(role, "begun")
                ballast = [fill(disk / name) for name in ("ballast", "rest")]
                count(role, "full")
                assert "/full/199/" not in " ".join(read(counts / "counter_api-1.db"))
                for file in ballast:
                    file.unlink()
                count(role, "again")
                assert role.stdin
                role.stdin.close()
                assert role.wait(30) == 0
            names = " ".join(read(counts / "counter_api-1.db"))
            assert all(f"/{word}/199/" in names for word in ("begun", "full", "again"))
    except NotMountable as error:
        pytest.skip(str(error))


def count(role: "subprocess.Popen[str]", word: str) -> None:
    assert role.stdin
    assert role.stdout
    role.stdin.write(f"{word}\n")
    role.stdin.flush()
    assert role.stdout.readline() == "counted\n", f"the process has ended: {role.wait(5)}"
