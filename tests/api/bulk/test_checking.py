"""Results of checks are the same after the transfer from a helper process to its api process."""

import pickle
from datetime import UTC, datetime

import msgspec
import pytest

from api.bulk.checking import CheckRequest, check_lines
from api.http.limits import FEW_PROBLEMS, MAX_BATCH_PROBLEMS
from market.submission_check import Terms
from schemas.reading.problems import ERRORS_TRUNCATED, MAX_PROBLEMS, LeftOut
from schemas.sentence import german_of


def test_what_a_helper_finds_travels_whole_and_in_both_languages() -> None:
    line = b'{"import_supplier":"X","customers":[%s]}' % b",".join([b'{"mobile":1}'] * (MAX_PROBLEMS + 50))
    checked = check_lines(CheckRequest([line, b'{"a":"\\ud800"}'], {"X": Terms()}, "create", "", datetime.now(UTC)))
    travelled = pickle.loads(pickle.dumps(checked))
    assert travelled == checked
    last = travelled[0].errors[-1]
    assert isinstance(last, LeftOut)
    assert (last.code, last.left_out > 0) == (ERRORS_TRUNCATED, True)
    sentences = [
        [(problem.detail, german_of(problem.detail)) for problem in each.errors] for each in (travelled[0], checked[0])
    ]
    assert sentences[0] == sentences[1]
    assert all(english != german for english, german in sentences[0])


@pytest.mark.promise("ndjson-limits-hold-each")
def test_of_many_problems_later_lines_of_a_batch_list_fewer() -> None:
    line = msgspec.json.encode({f"unknown_{number}": 1 for number in range(2 * MAX_PROBLEMS)})
    lines = MAX_BATCH_PROBLEMS // MAX_PROBLEMS + 5
    found = check_lines(CheckRequest([line] * lines, {}, "validate", "", datetime.now(UTC)))
    assert [len(checked.errors) for checked in found] == [MAX_PROBLEMS] * (lines - 5) + [FEW_PROBLEMS] * 5
    whole = {
        len(checked.errors) - 1 + last.left_out for checked in found if isinstance(last := checked.errors[-1], LeftOut)
    }
    assert len(whole) == 1, "whatever is not listed is counted"
    assert whole.pop() > 2 * MAX_PROBLEMS
