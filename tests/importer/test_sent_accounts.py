"""Accounts that a push has sent."""

from hypothesis import given
from hypothesis import strategies as st

from importledger_client.sent_accounts import SentAccounts

SENT = st.lists(st.tuples(st.integers(0, 2000), st.binary(max_size=1)), max_size=100)


@given(SENT, st.integers(0, 3000))
def test_an_account_has_other_content_if_its_first_line_had(sent: list[tuple[int, bytes]], before: int) -> None:
    accounts = SentAccounts()
    first = dict.fromkeys(range(1000, 1000 + before), b"before")
    assert not any(accounts.has_other(number, content) for number, content in first.items())

    for number, content in sent:
        assert accounts.has_other(number, content) == (first.setdefault(number, content) != content)
