"""Checks of the system page that run in the background."""

import asyncio

import pytest
from structlog.testing import capture_logs

from console.access import checkup
from console.access.checkup import Checkup


def test_failing_checks_are_logged_and_leave_the_last_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "CHECKED_EVERY_S", -1.0)
    results = [["worse", "better"], None]

    def examine() -> list[str]:
        found = results.pop(0)
        if found is None:
            raise OSError("no disk")
        return found

    async def visit_twice() -> Checkup:
        checks = Checkup(examine)
        await checks.refresh()
        while results:
            await checks.refresh()
            await asyncio.sleep(0.01)
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
        return checks

    with capture_logs() as lines:
        checks = asyncio.run(visit_twice())
    assert checks.findings == ["better", "worse"]
    assert checks.at is not None
    assert [line["event"] for line in lines] == ["checks of the system page failed"]
