"""`top`: one snapshot, lines elsewhere than in a terminal, tables in one; also while the database is away."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from cli.top import glance, line_of, page_of
from projections.vitals import Lag, Vitals
from tests.support.running import RunningService

AT = datetime(2026, 11, 22, 12, tzinfo=UTC)
BEFORE = Vitals(at=AT - timedelta(seconds=2), head=100, imports=[("NORDWIND", "PENDING", 20)])
SEEN = Vitals(
    at=AT,
    head=140,
    imports=[("NORDWIND", "PENDING", 10), ("NORDWIND", "PROCESSED", 10), ("SUEDWIND", "ERRORED", 1)],
    oldest_pending_s=1.5,
    lags={"relay": Lag(3, 0.2)},
    holders={"worker": 2, "relay": 1, "projector": 1},
    parked={"account_search": 1},
)


def test_rates_are_of_the_time_between_two_looks() -> None:
    assert (glance(SEEN, None, AT).events_per_s, glance(SEEN, None, AT).ended_per_s) == (None, None)
    told = glance(SEEN, BEFORE, AT)
    assert (told.events_per_s, told.ended_per_s) == (20.0, 5.5)
    assert told.imports == {"ERRORED": 1, "PENDING": 10, "PROCESSED": 10}
    assert list(told.suppliers) == ["NORDWIND", "SUEDWIND"]
    assert (told.workers, told.parked_streams) == (2, 1)


def test_a_look_is_a_line_or_a_page() -> None:
    line = line_of(glance(SEEN, BEFORE, AT))
    assert line.startswith("2026-11-22T12:00:00Z  events=140 events/s=20.0 ended/s=5.5  ERRORED=1 PENDING=10")
    assert line.endswith("behind: relay=3")
    console = Console(record=True, width=100, file=open("/dev/null", "w"))  # noqa: SIM115 - written to by redirection
    console.print(page_of(glance(SEEN, BEFORE, AT)))
    console.file.close()
    page = console.export_text()
    assert all(word in page for word in ("NORDWIND", "PROCESSED", "relay", "workers"))


def test_long_jobs_are_told_where_there_are_some() -> None:
    told = glance(Vitals(at=AT, head=1, long_jobs={"rebuild platform": (12, 40)}), None, AT)
    assert "long jobs: rebuild-platform=12/40  behind:" in line_of(told)
    assert "long jobs" not in line_of(glance(SEEN, None, AT))
    console = Console(record=True, width=100, file=open("/dev/null", "w"))  # noqa: SIM115 - written to by redirection
    console.print(page_of(told))
    console.file.close()
    assert "12 of 40" in console.export_text()


def test_a_database_that_is_away_is_told() -> None:
    told = glance(None, SEEN, AT)
    assert not told.database_up
    assert line_of(told) == "2026-11-22T12:00:00Z  the database is away"
    assert "away" in str(page_of(told))


def test_a_running_service_is_shown_once_as_json_and_twice_as_lines(service: RunningService) -> None:
    told = json.loads(service.cli("top", "--json").stdout)
    assert told["database_up"] is True
    assert told["events_per_s"] is not None
    assert told["workers"] >= 1
    assert {"relay", "projector", "sealer", "ended imports"} == told["lags"].keys()
    lines = service.cli("top", "--every", "0.2", "--times", "2").stdout.splitlines()
    assert len(lines) == 2
    assert all(" events=" in line and "\x1b" not in line for line in lines)


@pytest.mark.parametrize("wrong", [["--every", "0"], ["--times", "0"]])
def test_what_cannot_be_is_refused(service: RunningService, wrong: list[str]) -> None:
    assert service.cli("top", *wrong, check=False).returncode != 0
