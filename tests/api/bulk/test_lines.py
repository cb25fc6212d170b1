"""The lines of a body are found, however the body is split into pieces."""

import asyncio
import sys
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message

from api.bulk.body import MAX_BATCH_LINES, BodyCut, BulkBody
from api.bulk.inflate import Plain
from api.bulk.lines import Line, LineSplitter
from api.http.limits import MAX_LINE_BYTES


def lines_of(*pieces: bytes) -> tuple[list[tuple[int, bytes | None]], int]:
    splitter = LineSplitter()
    found = [line for piece in pieces for line in splitter.feed(piece)] + [*splitter.close()]
    return [(line.number, line.body) for line in found], splitter.count


def test_the_last_line_needs_no_line_feed() -> None:
    assert lines_of(b"a\nb") == ([(1, b"a"), (2, b"b")], 2)
    assert lines_of(b"") == ([], 0)
    assert lines_of(b"x" * MAX_LINE_BYTES + b"\n")[0] == [(1, b"x" * MAX_LINE_BYTES)]


def test_a_byte_order_mark_is_left_out() -> None:
    assert lines_of(b"\xef\xbb\xbf{}\n")[0] == [(1, b"{}")]


def test_a_line_that_is_too_long_is_told_alone_and_not_held() -> None:
    splitter = LineSplitter()
    found: list[Line] = [*splitter.feed(b"a\n")]
    for _ in range(12):
        found += splitter.feed(b"x" * (MAX_LINE_BYTES // 10))
    assert sum(map(len, splitter._pieces)) == 0
    found += splitter.feed(b"\nb\n")
    assert found == [Line(1, b"a"), Line(2, None), Line(3, b"b")]


@given(st.lists(st.sampled_from([b"a", b"{}", b"\n", b" ", b"\t", b"\r", b"x y"]), max_size=80))
def test_blank_lines_count_and_the_others_have_their_numbers(words: list[bytes]) -> None:
    body = b"".join(words)
    *whole, last = body.split(b"\n")
    wanted = [(number, line.strip(b" \t\r")) for number, line in enumerate([*whole, last], 1)]
    assert lines_of(body) == ([line for line in wanted if line[1]], len(whole) + bool(last))


@pytest.mark.promise("millions-blank-lines-take")
@pytest.mark.parametrize("blank", [b"\n", b" \n", b"\r\n", b"\n" * 1_000 + b"x\n"])
def test_millions_of_blank_lines_take_no_step_each(blank: bytes) -> None:
    """A few hundred kilobytes of gzip become as many."""
    steps = 0

    def step(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        steps += 1
        return step

    body = blank * (1_000_000 // len(blank))
    former = sys.gettrace()
    sys.settrace(step)
    try:
        _, count = lines_of(body)
    finally:
        sys.settrace(former)
    assert count == body.count(b"\n")
    assert steps < 50_000


@given(st.binary(max_size=200).map(lambda b: b.replace(b"x", b"\n")), st.lists(st.integers(0, 200), max_size=6))
def test_pieces_make_no_difference(body: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    pieces = [body[a:b] for a, b in pairwise(places)]
    assert lines_of(*pieces) == lines_of(body)


@pytest.mark.promise("service-stops-ends-bulk")
def test_a_server_that_stops_takes_no_more_of_what_has_arrived() -> None:
    taken = 0

    async def receive() -> Message:
        return {"type": "http.request", "body": b"{}\n" * 10_000, "more_body": True}

    async def take() -> None:
        nonlocal taken
        body = BulkBody(receive, Plain(), lambda: True)
        async for batch in body.batches():
            taken += len(batch)

    with pytest.raises(BodyCut):
        asyncio.run(take())
    assert taken == MAX_BATCH_LINES
