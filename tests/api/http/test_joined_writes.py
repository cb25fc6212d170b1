"""Writes of one iteration of the event loop are sent together in the next iteration, and never later."""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from api.http.joined_writes import MAX_HELD_BYTES, JoinedWrites

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Written(asyncio.Transport):
    """A transport that keeps what each of its writes was given."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closing = False

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    abort = close


def after_a_turn(*steps: Any) -> Written:
    """Call the steps one after the other and return what was written. None is a turn of the loop."""
    written = Written()

    async def run() -> None:
        transport = JoinedWrites(written, asyncio.get_running_loop())
        for step in steps:
            if step is None:
                await asyncio.sleep(0)
            elif isinstance(step, bytes):
                transport.write(step)
            else:
                step(transport)
        await asyncio.sleep(0)

    asyncio.run(run())
    return written


def test_all_answers_of_one_turn_are_one_write() -> None:
    assert after_a_turn(HEAD, b"{}", HEAD, b"[]", HEAD).writes == [HEAD + b"{}" + HEAD + b"[]" + HEAD]


def test_what_is_much_is_sent_at_once() -> None:
    """The transport has to be told, so that it can say when the client does not read."""
    part, seen = bytes(MAX_HELD_BYTES), []
    after_a_turn(part, b"x", lambda transport: seen.append([*transport._transport.writes]), b"y")
    assert seen == [[part + b"x"]]


def test_a_head_without_a_body_goes_out_before_the_end() -> None:
    written = after_a_turn(HEAD, JoinedWrites.close)
    assert written.writes == [HEAD]
    assert written.closing


def test_nothing_is_sent_where_the_connection_has_gone() -> None:
    assert after_a_turn(HEAD, lambda transport: transport.abort()).writes == []


@given(st.lists(st.one_of(st.none(), st.just(HEAD), st.just(b""), st.binary(max_size=12)), max_size=12))
def test_whatever_is_written_arrives_in_order_and_once(steps: list[bytes | None]) -> None:
    sent = b"".join(after_a_turn(*steps).writes)
    assert sent == b"".join(step for step in steps if step is not None)
