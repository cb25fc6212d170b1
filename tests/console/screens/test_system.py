"""The page of the system shows the findings of `importledger doctor`, the worst first."""

import re
from pathlib import Path

import pytest

from cli.doctor import graded
from console.settings import ConsoleSettings
from embedded.postgres import PostgresUrls
from tests.support.console import Browser, Visit, words_of


@pytest.fixture
def settings(database: PostgresUrls, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ConsoleSettings:
    """The settings of a console whose Redis is stopped, and beside which no relay and no worker runs."""
    monkeypatch.setenv("DATABASE_URL", database.roles["api"])
    monkeypatch.setenv("IMPORTLEDGER_DATA_DIR", str(folder / "none"))
    monkeypatch.setenv("REDIS_URL", "redis://:hidden@127.0.0.1:1/0")
    return ConsoleSettings(examine=graded)


def states(browser: Browser, path: str = "/console/system/", **headers: str) -> list[str]:
    page = browser.get(path, headers=headers).text
    return re.findall(r'<tr><td><span class="state (good|warn|bad)">', page)


def test_the_system_page_is_doctor_with_the_worst_first(visit: Visit) -> None:
    browser = visit("operator")
    words = words_of(browser.get("/console/system/").text)
    for finding in graded():
        assert re.sub(r"\d", "", finding.says)[:30] in re.sub(r"\d", "", words), finding
        assert (finding.todo or "") in words
    assert "No process has the role relay, projector." in words
    assert "No worker is running: no accounts are created. importledger worker" in words
    assert "Redis does not answer at 127.0.0.1:1" in words
    assert "hidden" not in words
    assert "This cannot be checked" not in words
    shown = states(browser)
    assert shown == sorted(shown, key=("bad", "warn", "good").index)
    assert len(set(shown)) == 3
    assert states(browser, **{"HX-Request": "true"}) == shown  # the part that refreshes itself
    browser = visit("operator", language="de")
    words = re.sub(r"\d", "", words_of(browser.get("/console/system/").text))
    assert "Prüfungen" in words
    assert "Kein Worker läuft: Es werden keine Konten angelegt. importledger worker" in words
    for finding in graded():
        for text in filter(None, (finding.says, finding.todo)):
            assert re.sub(r"\d", "", text.german)[:30] in words, text


CALLS: list[int] = []


def counted() -> list[object]:
    CALLS.append(1)
    return []


@pytest.mark.parametrize("settings", [ConsoleSettings(examine=counted)], ids=["counted"])
def test_a_visit_waits_for_the_checks_only_the_first_time(operator: Browser) -> None:
    for _ in range(3):
        assert operator.get("/console/system/").status_code == 200
    assert CALLS == [1]
