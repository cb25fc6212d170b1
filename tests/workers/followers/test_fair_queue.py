"""Turns of suppliers: no supplier waits until all streams of another are sent, and memory is bounded."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.followers import fair_queue as module
from workers.followers.fair_queue import ALL_LANES, ALONE, FEW, LANE, FairQueue, Waiting

COUNTS = st.dictionaries(st.sampled_from("ABCDEFG"), st.integers(1, 300), min_size=1)


def filled(counts: dict[str, int], **waiting: bool) -> FairQueue:
    queue = FairQueue()
    for supplier, count in counts.items():
        for number in range(count):
            assert queue.add(supplier, f"{supplier}/{number}", Waiting(number, **waiting))
    return queue


@pytest.mark.promise("suppliers-take-turns-account")
@given(counts=COUNTS, most=st.integers(1, 100))
def test_of_each_message_every_waiting_supplier_has_an_equal_part(counts: dict[str, int], most: int) -> None:
    """No stream is lost or sent twice. Shares of suppliers that still wait differ by one at most."""
    queue, left = filled(counts), dict(counts)
    while queue:
        [message] = queue.take(most)
        parts = {supplier: sum(name[0] == supplier for name in message) for supplier in left}
        assert len(message) == min(most, sum(left.values()))
        waits = [supplier for supplier in left if parts[supplier] < left[supplier]]
        most_parts = max(parts.values())
        assert all(parts[supplier] >= most_parts - 1 for supplier in waits)
        left = {supplier: count - parts[supplier] for supplier, count in left.items() if count > parts[supplier]}
    assert left == {}


@given(suppliers=st.integers(2, 50))
def test_the_turn_of_each_supplier_comes_within_as_many_messages_as_there_are_suppliers(suppliers: int) -> None:
    queue = filled({f"{number:02}": 3 for number in range(suppliers)})
    first = [queue.take(1)[0][0].split("/")[0] for _ in range(suppliers)]
    assert len(set(first)) == suppliers


def test_a_later_supplier_is_in_the_next_message_however_much_another_has_sent() -> None:
    queue = filled({"A": LANE})
    queue.add("B", "B/1", Waiting(1))
    assert "B/1" in queue.take(400)[0]


@pytest.mark.promise("suppliers-take-turns-account")
def test_memory_is_bounded_with_ten_million_accounts_of_a_thousand_suppliers() -> None:
    queue = FairQueue()
    for number in range(2 * LANE):
        queue.add("first", f"first/{number}", Waiting(number))
    for supplier in range(1_000):
        for number in range(300):  # of 10,000: those behind them are refused in the same way
            queue.add(f"{supplier}", f"{supplier}/{number}", Waiting(number))
    assert len(queue) <= ALL_LANES + 1_001 * FEW
    assert len(queue) == sum(len(message) for messages in iter(partial(queue.take, 10_000), []) for message in messages)


def test_an_import_that_was_tried_before_has_a_message_of_its_own_and_costs_its_supplier_more() -> None:
    queue = filled({"A": 100}, is_alone=True)
    for number in range(100):
        queue.add("B", f"B/{number}", Waiting(number))
    *together, first, second, third = queue.take(6 * ALONE)
    assert [len(message) for message in together] == [3 * ALONE]
    assert [first, second, third] == [["A/0"], ["A/1"], ["A/2"]]


def test_a_stream_comes_again_only_after_a_later_event_or_after_a_while() -> None:
    queue = filled({"A": 1})
    assert queue.take(1) == [["A/0"]]
    queue.add("A", "A/0", Waiting(0))
    assert queue.take(1) == []
    queue.add("A", "A/0", Waiting(5))
    assert queue.take(1) == [["A/0"]]
    queue.forget_sent()
    queue.add("A", "A/0", Waiting(5))
    assert queue.take(1) == [["A/0"]]


@pytest.mark.promise("any-name-part-one")
def test_a_supplier_has_a_limited_number_of_turns_in_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    queue = FairQueue(per_minute=10)
    for number in range(30):
        queue.add("A", f"A/{number}", Waiting(number))
    queue.add("B", "B/1", Waiting(1))
    assert [len(message) for message in (*queue.take(100), *queue.take(100))] == [11]
    clock.now += 60
    assert [len(message) for message in queue.take(100)] == [10]


class Clock:
    now = 600.0

    def monotonic(self) -> float:
        return self.now
