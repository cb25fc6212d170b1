"""Clock of this process. All code reads the time here."""

from datetime import UTC, datetime


def now() -> datetime:
    """Return the present time in UTC."""
    return datetime.now(UTC)
