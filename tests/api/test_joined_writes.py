"""The head of an answer goes out with what follows it, and never later than the loop's next turn."""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from api.joined_writes import JoinedWrites

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
    """What was written, when the steps were called one after the other, None being a turn of the loop."""
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


def test_a_head_is_sent_together_with_the_body() -> None:
    assert after_a_turn(HEAD, b"{}").writes == [HEAD + b"{}"]


def test_a_head_alone_is_sent_in_the_next_turn() -> None:
    assert after_a_turn(HEAD).writes == [HEAD]
    assert after_a_turn(HEAD, None, b"piece", b"piece").writes == [HEAD, b"piece", b"piece"]


def test_each_answer_of_one_turn_is_a_write_of_its_own() -> None:
    assert after_a_turn(HEAD, b"{}", HEAD, b"[]", HEAD).writes == [HEAD + b"{}", HEAD + b"[]", HEAD]


def test_a_head_without_a_body_goes_out_before_the_end() -> None:
    written = after_a_turn(HEAD, JoinedWrites.close)
    assert written.writes == [HEAD]
    assert written.closing


def test_nothing_is_sent_where_the_connection_has_gone() -> None:
    assert after_a_turn(HEAD, JoinedWrites.abort).writes == []


@given(st.lists(st.one_of(st.none(), st.just(HEAD), st.just(b""), st.binary(max_size=12)), max_size=12))
def test_whatever_is_written_arrives_in_order_and_once(steps: list[bytes | None]) -> None:
    sent = b"".join(after_a_turn(*steps).writes)
    assert sent == b"".join(step for step in steps if step is not None)
