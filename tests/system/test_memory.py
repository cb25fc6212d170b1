"""Memory that a process may use, and the buffers of Postgres in it."""

from pathlib import Path

import pytest

from embedded.postgres import buffers_mb
from system.memory import usable_memory


def test_the_least_of_what_the_machine_has_and_the_groups_around_are_granted_counts(tmp_path: Path) -> None:
    groups, group = tmp_path / "groups", tmp_path / "cgroup"
    (groups / "own" / "inner").mkdir(parents=True)
    group.write_text("0::/own/inner\n")
    installed = usable_memory(group, groups)
    assert installed > 100_000_000
    (groups / "own" / "memory.max").write_text("100000000\n")
    (groups / "own" / "inner" / "memory.max").write_text("max\n")
    (groups / "memory.max").write_text("nothing\n")
    (tmp_path / "memory.max").write_text("1\n")
    assert usable_memory(group, groups) == 100_000_000
    (groups / "own" / "memory.max").write_text(f"{installed * 2}\n")
    assert usable_memory(group, groups) == installed
    (groups / "memory").mkdir()
    (groups / "memory" / "memory.limit_in_bytes").write_text("200000000\n")
    assert usable_memory(group, groups) == 200_000_000


@pytest.mark.parametrize(
    ("gigabytes", "megabytes"), [(0, 256), (1, 256), (4, 256), (8, 512), (15, 960), (16, 1024), (512, 1024)]
)
def test_postgres_takes_a_part_of_the_memory_within_bounds(gigabytes: int, megabytes: int) -> None:
    assert buffers_mb(gigabytes << 30) == megabytes
