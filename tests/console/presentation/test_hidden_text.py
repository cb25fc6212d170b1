"""Text in an address can be read by one session alone."""

from hypothesis import given
from hypothesis import strategies as st

from console.presentation.hidden_text import hidden, revealed

TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=300)


@given(TEXTS, st.text(min_size=1), st.text(min_size=1))
def test_a_text_is_read_by_its_session_alone(text: str, token: str, other: str) -> None:
    address = hidden(text, token)
    assert revealed(address, token) == text
    assert hidden(text, token) != address
    assert revealed(address, other) == (text if other == token else "")


@given(st.text(max_size=80) | st.binary(max_size=80).map(bytes.hex))
def test_any_other_text_is_none(text: str) -> None:
    assert revealed(text, "token") == ""
