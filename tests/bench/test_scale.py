"""Ratios of a large service to a small one, and valid, distinct accounts of the load."""

from datetime import UTC, datetime

import pytest

from bench.load import bodies, market_location, own_values, permuted
from bench.scale import Value, compared
from market.identifiers import is_market_location_id
from market.submission_check import Occasion, Terms, check_submission
from schemas.submission import read_submission


def measured_pair(small: float, large: float, *, is_cost: bool = False) -> tuple[dict[str, Value], dict[str, Value]]:
    return {"it": Value(small, "ms", is_cost)}, {"it": Value(large, "ms", is_cost)}


@pytest.mark.parametrize(("large", "is_cost", "ratio"), [(80.0, False, 0.8), (80.0, True, 1.25), (125.0, True, 0.8)])
def test_more_is_better_but_of_costs(large: float, *, is_cost: bool, ratio: float) -> None:
    [row] = compared([measured_pair(100.0, large, is_cost=is_cost)])
    assert row.measured == pytest.approx(ratio)
    assert row.is_met is (ratio >= 0.9)


def test_each_turn_is_compared_by_itself() -> None:
    [row] = compared([measured_pair(100.0, 95.0), measured_pair(10.0, 9.5), measured_pair(50.0, 10.0)])
    assert row.measured == pytest.approx(0.95)
    assert row.name == "it, 50.00 ms with few and 10.00 with many accounts"


def test_market_locations_of_the_load_are_right_and_not_alike() -> None:
    made = [market_location(permuted(number)).decode() for number in (*range(1_000), 10**9 - 1)]
    assert all(is_market_location_id(made_id) for made_id in made)
    assert len(set(made)) == len(made)


def test_what_no_two_accounts_share_is_replaced_by_what_is_right() -> None:
    body, _ = bodies("NORDWIND")[0]
    for place, (value, form) in enumerate(own_values(body)):
        assert value in body
        body = body.replace(value, form(place))
    assert [value for value, _ in own_values(body)] == [form(n) for n, (_, form) in enumerate(own_values(body))]
    judged = check_submission(read_submission(body), Terms(), datetime(2026, 11, 21, 12, tzinfo=UTC), Occasion.CREATE)
    assert (*judged.problems, *judged.warnings) == ()
