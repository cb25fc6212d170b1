"""A MAC is valid only for its key, purpose and parts."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from eventstore.log.authority import AuthorityKey

KEY, OTHER = AuthorityKey("k" * 32), AuthorityKey("o" * 32)
PARTS = st.lists(st.text(max_size=3) | st.none(), max_size=4)


@given(st.text(max_size=3), PARTS, st.text(max_size=3), PARTS)
def test_a_mac_holds_for_its_purpose_and_parts_alone(
    purpose: str, parts: list[str | None], other: str, others: list[str | None]
) -> None:
    mac = KEY.mac(purpose, *parts)
    assert KEY.is_mac(mac, other, *others) == ((purpose, parts) == (other, others))
    assert not OTHER.is_mac(mac, purpose, *parts)
    assert not KEY.is_mac("", purpose, *parts)


@given(st.integers(1_600_000_000_000_000, 4_000_000_000_000_000))
def test_a_time_counts_in_whichever_zone_the_database_returns_it(microseconds: int) -> None:
    moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=microseconds)
    assert KEY.is_mac(KEY.mac("p", moment), "p", moment.astimezone(ZoneInfo("Europe/Berlin")))
