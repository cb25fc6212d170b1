"""What a process does not know is asked for, and a log that does not answer makes nobody unknown."""

import asyncio
from typing import Any

import pytest

from api.access import directory as module
from api.access.directory import Directory
from eventstore.errors import StoreUnavailable
from projections.views.import_supplier import KnownSupplier


def _asking(monkeypatch: pytest.MonkeyPatch, answers: list[bool]) -> Directory:
    """A directory of one supplier; whether each question is answered, one after the other."""

    async def read(*_: Any) -> Any:
        is_answered = answers.pop(0)
        await asyncio.sleep(0.01)
        if not is_answered:
            raise StoreUnavailable("the database does not answer in time")
        return [KnownSupplier(code="NORDWIND")], []

    monkeypatch.setattr(module, "read", read)
    pool: Any = None
    return Directory(pool)


async def _ask(directory: Directory, count: int) -> list[Any]:
    return await asyncio.gather(*(directory.supplier("NORDWIND") for _ in range(count)), return_exceptions=True)


def test_those_who_ask_together_share_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [True, True]
    found = asyncio.run(_ask(_asking(monkeypatch, answers), 20))
    assert {one.code for one in found} == {"NORDWIND"}
    assert len(answers) == 1


def test_whoever_shares_a_question_that_is_not_answered_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A supplier that could not be asked for is none that does not exist."""
    answers = [False, True]

    async def ask() -> list[Any]:
        directory = _asking(monkeypatch, answers)
        lost = await _ask(directory, 20)
        assert {type(one) for one in lost} == {StoreUnavailable}
        assert len(answers) == 1
        return await _ask(directory, 1)  # whoever comes later asks again

    assert [one.code for one in asyncio.run(ask())] == ["NORDWIND"]
