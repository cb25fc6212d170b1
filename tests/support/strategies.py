"""Arbitrary values for property tests."""

from typing import Any

from hypothesis import strategies as st

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)

MOMENTS = (
    "2026-01-01", "2026-03-29T02:30:00", "2026-07-01T12:00:00", "2026-07-01T12:00:00.123456+02:00",
    "2026-07-01T12:00:00.5+02:00", "2026-07-01T12:00:00." + 60 * "1" + "Z", "2026-07-01t12:00:00z",
    "2026-07-01T12:00Z", "2026-07-01T12:00:00+02", "2026-07-01 12:00:00Z", "0001-01-01T00:00:00Z",
    "1890-01-01T00:00:00",
)  # fmt: skip
VALUES: tuple[Any, ...] = (..., "", None, [], {}, False, 0, 1.5, "0.10", "1e5", "-0.10", "x", "\n", *MOMENTS)
"""Values that some fields accept and others do not; a removed field is `...`."""
