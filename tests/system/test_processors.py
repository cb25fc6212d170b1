"""Cores that a process may use, and CPU pressure."""

import math
from pathlib import Path

import pytest

from cli.service.roles import processes_for, workers_for
from system.processors import ProcessorPressure, granted_cores, usable_cores


@pytest.mark.parametrize(
    ("granted", "cores"),
    [
        ({}, math.inf),
        ({"": "max 100000\n"}, math.inf),
        ({"": "150000 100000\n"}, 1.5),
        ({"own": "400000 100000\n", "own/inner": "max 100000\n"}, 4.0),
        ({"": "200000 100000\n", "own/inner": "400000 100000\n"}, 2.0),
        ({"own/inner": "nothing\n"}, math.inf),
        ({"own/inner": "100000 0\n"}, math.inf),
    ],
)
def test_the_least_of_what_the_group_and_those_around_it_may_use_counts(
    tmp_path: Path, granted: dict[str, str], cores: float
) -> None:
    groups, group = tmp_path / "groups", tmp_path / "cgroup"
    (groups / "own" / "inner").mkdir(parents=True)
    group.write_text("4:memory:/other\n0::/own/inner\n")
    for place, output in granted.items():
        (groups / place / "cpu.max").write_text(output)
    (tmp_path / "cpu.max").write_text("1 100000\n")
    assert granted_cores(group, groups) == cores


@pytest.mark.parametrize("group", [None, "", "3:cpu:/\n", "0::/../..\n"])
def test_a_system_without_such_groups_has_no_limit(tmp_path: Path, group: str | None) -> None:
    (tmp_path / "groups").mkdir()
    if group is not None:
        (tmp_path / "cgroup").write_text(group)
    assert granted_cores(tmp_path / "cgroup", tmp_path / "groups") == math.inf


@pytest.mark.parametrize(
    ("cores", "api_processes", "workers"), [(0, 1, 1), (1, 1, 1), (2, 2, 2), (4, 4, 4), (8, 8, 4), (64, 8, 4)]
)
def test_each_core_has_an_api_process_and_a_worker(cores: int, api_processes: int, workers: int) -> None:
    assert (processes_for(cores), workers_for(cores)) == (api_processes, workers)


@pytest.mark.parametrize(("granted", "cores"), [(0.2, 1), (1.0, 1), (1.5, 2), (3.0, 3), (math.inf, 64)])
def test_a_part_of_a_core_is_a_core(monkeypatch: pytest.MonkeyPatch, granted: float, cores: int) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(64)), raising=False)
    monkeypatch.setattr("system.processors.granted_cores", lambda: granted)
    assert usable_cores() == cores


def test_pressure_is_the_share_of_the_time_since_it_was_last_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, clock = tmp_path / "cpu", [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    file.write_text("some avg10=1.00 avg60=0.50 avg300=0.10 total=5000000\nfull avg10=0 avg60=0 avg300=0 total=0\n")
    pressure = ProcessorPressure(file)
    clock[0] = 102.0
    file.write_text("some avg10=1.00 avg60=0.50 avg300=0.10 total=6500000\n")
    assert pressure.share() == 0.75
    assert pressure.share() == 0.0, "no time has passed"


def test_pressure_is_read_a_few_times_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, clock = tmp_path / "cpu", [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])

    def after(seconds: float, total: int) -> bool:
        clock[0] += seconds
        file.write_text(f"some avg10=1.00 avg60=0.50 avg300=0.10 total={total}\n")
        return pressure.is_high()

    pressure = ProcessorPressure(file)
    file.write_text("some avg10=1.00 avg60=0.50 avg300=0.10 total=0\n")
    assert not after(0.25, 0)
    assert not after(0.24, 240_000), "it was read just now"
    assert after(0.01, 250_000)
    assert after(0.24, 250_000)
    assert not after(0.01, 250_000)


@pytest.mark.parametrize("content", [None, "", "nothing\n"])
def test_a_system_that_says_nothing_has_processors_for_all(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "cpu").write_text(content)
    assert ProcessorPressure(tmp_path / "cpu").share() == 0.0
