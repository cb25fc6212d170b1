"""Sandbox: outcomes of imports by the ending of their number."""

import pytest

from eventstore.aggregates.import_process import FailImport, ImportProcess, PostponeImport, stream_of
from tests.support.make import NOON
from workers.actors.sandbox import MAX_SLOW_S, command_for, slowness_s


def command_of(external: str, attempt: int = 1) -> object:
    return command_for(stream_of("S", external), ImportProcess(status="IN_PROGRESS", start=2, attempt=attempt), NOON)


def test_an_import_fails_with_the_code_in_its_number() -> None:
    command = command_of("NW-1-ERRORED-document_not_found")
    assert isinstance(command, FailImport)
    assert (command.code, command.start) == ("document_not_found", 2)


def test_a_transient_import_is_postponed_twice_and_then_processed() -> None:
    assert [type(command_of("NW-1-TRANSIENT-2", attempt)) for attempt in (1, 2, 3)] == [
        PostponeImport,
        PostponeImport,
        type(None),
    ]


def test_a_slow_import_is_in_progress_for_its_seconds_but_not_beyond_its_lease() -> None:
    assert slowness_s(stream_of("S", "NW-1-SLOW-30S")) == 30
    assert slowness_s(stream_of("S", "NW-1-SLOW-99S")) == MAX_SLOW_S
    assert slowness_s(stream_of("S", "NW-1")) == 0


@pytest.mark.parametrize("external", ["NW-ERRORED-", "ERRORED-x-1", "NW-1-TRANSIENT-9", "NW-1-errored-x", "NW-1"])
def test_other_numbers_have_no_effect(external: str) -> None:
    assert command_of(external) is None
