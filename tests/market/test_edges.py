"""Each limit has an example just inside and one just outside."""

import re
from datetime import UTC, date, datetime, time, timedelta, timezone
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

import market
from market.periods import follow_each_other, is_past, ordered
from market.plausibility import PLAUSIBILITY, today_in_germany
from market.rule import RuleBook
from market.submission_check import MAX_WINDOW, Occasion, Terms, check_submission
from schemas.sentence import german_of
from schemas.submission import read_submission
from tests.support.german import is_german
from tests.support.make import an_account, changed, encoded, places, value_at

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)
TRANSACTIONS = ("ledgers", 0, "current_statement_transactions")


def codes(account: dict[str, Any]) -> list[str]:
    judged = check_submission(read_submission(encoded(account)), Terms(), NOW, Occasion.CREATE)
    return [problem.code for problem in judged.problems + judged.warnings]


def window(start: datetime | None, end: datetime | None) -> list[str]:
    moments = {"schedule_window_start": start, "schedule_window_end": end}
    return codes({"payload": an_account(), "task_params": moments})


@pytest.mark.promise("window-ends-past-refused")
@pytest.mark.parametrize(
    ("start", "end", "code"),
    [
        (NOW, None, None),
        (NOW - SECOND, None, "schedule_window_start_in_past"),
        (None, NOW, None),
        (None, NOW - SECOND, "schedule_window_end_in_past"),
        (None, NOW + MAX_WINDOW, None),
        (None, NOW + MAX_WINDOW + SECOND, "schedule_window_end_too_far_in_future"),
        (NOW + MAX_WINDOW, None, None),
        (NOW + MAX_WINDOW + SECOND, None, "schedule_window_start_too_far_in_future"),
        (NOW + SECOND, NOW + 2 * SECOND, None),
        (NOW + SECOND, NOW + SECOND, "schedule_window_start__after_end"),
    ],
)
def test_a_window_is_judged_to_the_second(start: datetime | None, end: datetime | None, code: str | None) -> None:
    assert window(start, end) == ([] if code is None else [code])
    moments = {"schedule_window_start": start, "schedule_window_end": end}
    submission = read_submission(encoded({"payload": an_account(), "task_params": moments}))
    edge = "start" if "window_start" in (code or "") else "end"
    for problem in check_submission(submission, Terms(), NOW, Occasion.CREATE).problems:
        assert problem.attr == f"task_params.schedule_window_{edge}"
        assert problem.detail.startswith("The schedule window ")
        assert is_german(german_of(problem.detail))


def moved_on(day: str, closed: str) -> dict[str, Any]:
    """An account whose last statement was closed on a day, with one transaction after or before that."""
    account = changed(an_account(), closed, "ledgers", 0, "last_statement_closing_date")
    [first, *_] = account["ledgers"][0]["current_statement_transactions"]
    return changed(account, [first | {"transaction_date": day}], *TRANSACTIONS)


def test_a_transaction_on_the_day_of_the_last_closing_is_in_the_closed_statement() -> None:
    after, same_day = codes(moved_on("2026-10-02", "2026-10-01")), codes(moved_on("2026-10-01", "2026-10-01"))
    assert len(same_day) == len(after) + 1


def test_a_transaction_is_of_today_by_german_clocks() -> None:
    late = datetime(2026, 11, 21, 23, 30, tzinfo=UTC)  # it is the 22nd in Germany
    for day, holds in (("2026-11-22", True), ("2026-11-23", False)):
        account = read_submission(encoded(moved_on(day, "2026-10-01"))).account
        found = {breach.problem.code for breach in market.check(account, late)}
        assert ("transaction_in_future" not in found) is holds


@pytest.mark.parametrize(
    ("first", "last", "holds"),
    [
        (date(2026, 1, 1), date(2026, 1, 1), True),
        (date(2026, 1, 2), date(2026, 1, 1), False),
        (date(2026, 1, 2), None, True),
        (date(2026, 1, 2), UNSET, True),
        (UNSET, date(2026, 1, 1), True),
    ],
)
def test_a_period_may_begin_and_end_on_one_day(first: Any, last: Any, holds: bool) -> None:
    assert ordered("first", "last")(SimpleNamespace(first=first, last=last)) is holds


def test_this_very_moment_is_past() -> None:
    assert is_past(NOW, NOW)
    assert not is_past(NOW + SECOND, NOW)


@pytest.mark.parametrize(
    ("end", "start", "gaps_until", "holds"),
    [
        (0, 0, -9, True),
        (0, 1, -9, True),
        (0, 2, -9, False),
        (0, -1, -9, False),
        (0, 2, 2, True),
        (0, 2, 1, False),
        (None, 2, 9, False),
    ],
)
def test_periods_meet_on_the_same_or_the_next_day(end: int | None, start: int, gaps_until: int, holds: bool) -> None:
    base = date(2026, 1, 10)
    earlier = SimpleNamespace(effective_from=base - 9 * DAY, effective_to=None if end is None else base + end * DAY)
    later = SimpleNamespace(effective_from=base + start * DAY, effective_to=None)
    assert follow_each_other([later, earlier], base + gaps_until * DAY) is holds
    assert follow_each_other([earlier], base)


DATES = st.dates() | st.sampled_from([date.min, date.min + DAY, date.max - DAY, date.max])
OFFSETS = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.builds(
    datetime.combine, DATES, st.sampled_from([time.min, time(12), time(23, 59, 59, 999_999)]), OFFSETS
).map(datetime.isoformat)
DATED = [path for path in places(an_account()) if re.match(r"\d{4}-\d\d-\d\d", str(value_at(an_account(), path)))]


@pytest.mark.promise("date-makes-rule-fail")
@pytest.mark.slow
@given(st.data())
def test_rules_never_raise_for_any_dates(data: st.DataObject) -> None:
    account = an_account()
    for path in DATED:
        is_day = len(value_at(account, path)) == len("2026-11-21")
        value = data.draw(st.just(value_at(account, path)) | (DATES.map(date.isoformat) if is_day else MOMENTS))
        account = changed(account, value, *path)
    submission = read_submission(encoded(account))
    for occasion in Occasion:
        check_submission(submission, Terms(), NOW, occasion)
    breaches = RuleBook(PLAUSIBILITY).breaches(submission.account, NOW)
    assert all(is_german(german_of(breach.problem.detail)) for breach in breaches)


def test_an_agreement_may_be_open_until_9999() -> None:
    """SAP writes an open end so, and the agreement after one that never ends begins on that day, or not at all."""
    listed: list[dict[str, Any]] = [
        {"product_code": "P", "effective_from": "2022-01-01", "effective_to": "9999-12-31"},
        {"product_code": "P", "effective_from": "9999-12-31", "effective_to": None},
    ]
    agreements = ("supply_addresses", 0, "supply_points", 0, "agreements")
    assert "gaps_or_overlaps_in_agreement_dates" not in codes(changed(an_account(), listed, *agreements))
    overlapping = [listed[0], listed[1] | {"effective_from": "9999-12-30"}]
    assert "gaps_or_overlaps_in_agreement_dates" in codes(changed(an_account(), overlapping, *agreements))


FLAT = ("supply_addresses", 1)


@pytest.mark.parametrize("line", ["supply_address3", "supply_address4"])
def test_two_flats_in_one_building_are_two_addresses(line: str) -> None:
    [address] = an_account()["supply_addresses"]
    account = changed(an_account(), [address, address | {"supply_points": []}], "supply_addresses")
    assert "duplicate_supply_addresses_found" in codes(account)
    assert codes(changed(account, "3. OG rechts", *FLAT, line)) == []


@pytest.mark.parametrize("title", ["Prof. Dr. Dr. h.c. mult.", "x" * 35])
def test_a_title_may_have_35_characters(title: str) -> None:
    assert codes(changed(an_account(), title, "customers", 0, "title")) == []


METER = ("supply_addresses", 0, "supply_points", 0, "melos", 0, "meters", 0)


@pytest.mark.parametrize(
    ("digits", "first", "second", "is_warned"),
    [
        (5, "99987", "00012", False),
        (5, "99987.9", "0", False),
        (5, "75000.0", "24999.9", False),
        (5, "75000", "25000", True),
        (6, "99987", "00012", True),
        (..., "99987", "00012", True),
        (5, "47232", "47231", True),
    ],
)
def test_a_register_that_turns_over_is_not_warned_of(digits: Any, first: str, second: str, is_warned: bool) -> None:
    readings = [
        {"value": first, "read_at": "2022-06-01T00:00:00Z"},
        {"value": second, "read_at": "2023-01-01T00:00:00Z"},
    ]
    register = (*METER, "registers", 0)
    account = changed(changed(an_account(), readings, *register, "readings"), digits, *register, "digits")
    assert ("readings_run_backwards" in codes(account)) is is_warned


@pytest.mark.parametrize(
    "now", [f"2026-{day}T{hour:02}:30:00+00:00" for day in ("01-31", "07-31") for hour in range(24)]
)
def test_today_in_germany_is_the_day_of_its_clocks(now: str) -> None:
    moment = datetime.fromisoformat(now)
    expected = moment.astimezone(ZoneInfo("Europe/Berlin")).date()
    assert today_in_germany(moment.astimezone(UTC)) == expected
    assert today_in_germany(moment.astimezone(ZoneInfo("Asia/Tokyo"))) == expected
