"""Each failure counts once."""

from typing import Any

import pytest

from eventstore.aggregates.import_process import ImportErrored
from eventstore.events import Recorded
from projections.versions.reading import Seen
from projections.views.error_statistics import project as statistics_of
from tests.support.make import NOON
from tests.support.problems import INVALID, MISSING


def counted(**fields: Any) -> list[tuple[str, str, int]]:
    event = ImportErrored(attempt=1, detail="No.", **fields)
    recorded = Recorded("import/S/1", 3, event, NOON, "S", "t", None, 3, "1")
    return [(code, path, number) for _, _, _, code, path, number in statistics_of(Seen(recorded))]


@pytest.mark.promise("refused-attempt-found-number", "one-failure-counted-once")
def test_one_failure_is_counted_once() -> None:
    twice = (MISSING, MISSING.replace(".0.", ".1."))
    assert counted(code="attempts_exhausted") == [("attempts_exhausted", "", 1)]
    assert counted(code=INVALID, problems=twice) == [
        ("path_does_not_exist_in_file_store", "statements[].statement_path", 1)
    ]
    two = (MISSING, "invalid_iban@payment_instructions.0")
    assert counted(code=INVALID, problems=two) == [
        ("path_does_not_exist_in_file_store", "statements[].statement_path", 1)
    ]
    assert counted(code=INVALID, problems=("unknown_field@customers.0.Erika",)) == [
        ("unknown_field", "customers[].*", 1)
    ]
