"""Values in COPY's binary format, by the bytes that Postgres documents."""

from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET
from psycopg import adapters
from psycopg.pq import Format

from eventstore.log.copy_format import BOOLEAN, COLUMNS, INTEGER, NULL, NUMERIC, SIZE, text, texts


@pytest.mark.parametrize("nothing", [None, UNSET])
def test_what_is_absent_is_null(nothing: None) -> None:
    assert text(nothing) == INTEGER[nothing] == BOOLEAN[nothing] == NULL
    assert texts(None) == NUMERIC[""] == NULL


def test_a_value_is_its_size_and_its_bytes() -> None:
    assert text("ü") == b"\x00\x00\x00\x02\xc3\xbc"
    assert text("") == b"\x00\x00\x00\x00"
    assert INTEGER[258] == b"\x00\x00\x00\x04\x00\x00\x01\x02"
    assert BOOLEAN[True] == b"\x00\x00\x00\x01\x01"
    assert (SIZE[3], COLUMNS[3]) == (b"\x00\x00\x00\x03", b"\x00\x03")


@given(st.from_regex(r"-?[0-9]{1,12}(\.[0-9]{1,6})?", fullmatch=True))
@example("00012345.6789")
@example("1234E+12")
def test_a_number_is_read_as_it_was_sent(digits: str) -> None:
    """With as many digits after its point, by what the library reads of it."""
    load = adapters.get_loader(adapters.types["numeric"].oid, Format.BINARY)
    assert load is not None
    written = NUMERIC[digits]
    assert SIZE[len(written) - 4] == written[:4]
    said, sent = load(adapters.types["numeric"].oid, None).load(written[4:]), Decimal(digits)
    assert (said, _places(said)) == (sent, _places(sent))


def _places(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return max(0, -exponent)


def test_an_array_says_how_many_there_are() -> None:
    assert texts([]) == b"\x00\x00\x00\x0c" + bytes(8) + b"\x00\x00\x00\x19"
    assert texts(["a"])[4:] == b"\x00\x00\x00\x01" + bytes(4) + b"\x00\x00\x00\x19\x00\x00\x00\x01\x00\x00\x00\x01" + (
        b"\x00\x00\x00\x01a"
    )
