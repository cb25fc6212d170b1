"""The time as this process sees it. Everything that asks for the time asks here."""

from datetime import UTC, datetime, timedelta

_offset = timedelta()


def now() -> datetime:
    """The present moment, in UTC."""
    return datetime.now(UTC) + _offset if _offset else datetime.now(UTC)


def shift_clock(by: timedelta) -> None:
    """Let this process see another time than the machine's; for tests of what clocks that differ do."""
    global _offset
    _offset = by
