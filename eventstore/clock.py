"""The time as this process sees it. Everything that asks for the time asks here."""

from datetime import UTC, datetime


def now() -> datetime:
    """The present moment, in UTC."""
    return datetime.now(UTC)
