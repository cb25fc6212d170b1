"""What travels between the api and its helpers."""

from datetime import UTC, datetime

import msgspec

from api.bulk.judging import Question, decode_judged, encode_judged, judge_lines
from api.limits import FEW_PROBLEMS, MAX_BATCH_PROBLEMS
from market.judging import Terms
from schemas.problems import ERRORS_TRUNCATED, MAX_PROBLEMS, LeftOut


def test_how_many_problems_are_left_out_survives_the_way_from_a_helper() -> None:
    line = b'{"import_supplier":"X","customers":[%s]}' % b",".join([b'{"mobile":1}'] * (MAX_PROBLEMS + 50))
    judged = judge_lines(Question([line], {"X": Terms()}, "create", "", datetime.now(UTC)))
    (travelled,) = decode_judged(encode_judged["en"](judged))
    assert travelled.errors == judged[0].errors
    last = travelled.errors[-1]
    assert isinstance(last, LeftOut)
    assert (last.code, last.left_out > 0) == (ERRORS_TRUNCATED, True)


def test_of_many_problems_later_lines_of_a_batch_list_fewer() -> None:
    line = msgspec.json.encode({f"unknown_{number}": 1 for number in range(2 * MAX_PROBLEMS)})
    lines = MAX_BATCH_PROBLEMS // MAX_PROBLEMS + 5
    found = judge_lines(Question([line] * lines, {}, "validate", "", datetime.now(UTC)))
    assert [len(judged.errors) for judged in found] == [MAX_PROBLEMS] * (lines - 5) + [FEW_PROBLEMS] * 5
    whole = {len(judged.errors) - 1 + judged.left_out for judged in found}
    assert len(whole) == 1, "whatever is not listed is counted"
    assert whole.pop() > 2 * MAX_PROBLEMS
