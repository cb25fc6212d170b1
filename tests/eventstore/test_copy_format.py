"""Values in COPY's binary format, by the bytes that Postgres documents."""

import pytest
from msgspec import UNSET

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


def test_an_array_says_how_many_there_are() -> None:
    assert texts([]) == b"\x00\x00\x00\x0c" + bytes(8) + b"\x00\x00\x00\x19"
    assert texts(["a"])[4:] == b"\x00\x00\x00\x01" + bytes(4) + b"\x00\x00\x00\x19\x00\x00\x00\x01\x00\x00\x00\x01" + (
        b"\x00\x00\x00\x01a"
    )
