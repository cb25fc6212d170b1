"""What travels between the api and its helpers."""

from datetime import UTC, datetime

from api.bulk.judging import Question, decode_judged, encode_judged, judge_lines
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
