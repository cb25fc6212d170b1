"""Times in German format."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from console.presentation.formats import Formats
from eventstore.clock import now

LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    ("at", "moment", "day"),
    [
        (datetime(2026, 11, 22, 13, 3, 7, tzinfo=UTC), "22.11.2026, 14:03:07 MEZ", "22.11.2026"),
        (datetime(2026, 7, 22, 22, 3, 7, tzinfo=UTC), "23.07.2026, 00:03:07 MESZ", "23.07.2026"),
        (LAST - timedelta(hours=1), "31.12.9999, 23:59:59 MEZ", "31.12.9999"),
        (LAST, "31.12.9999, 23:59:59 UTC", "31.12.9999"),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "01.01.0001, 00:00:00 UTC+01:00", "01.01.0001"),
    ],
)
def test_a_moment_at_the_ends_of_the_calendar_is_shown(at: datetime, moment: str, day: str) -> None:
    formats = Formats("de")
    assert (formats.moment(at), formats.day(at)) == (moment, day)
    assert formats.ago(at)


def test_a_relative_time_shows_the_exact_one_on_hover() -> None:
    at = now() - timedelta(minutes=3)
    shown = Formats("de").when(at)
    assert f'title="{Formats("de").moment(at)}"' in shown
    assert ">vor 3 Minuten</time>" in shown
    waited = Formats("de").since(at)
    assert f'title="{Formats("de").moment(at)}"' in waited
    assert ">3 Minuten</time>" in waited
    assert Formats("de").when(None) == Formats("de").since(None) == "–"


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("billing_postcode", "Postleitzahl"),
        ("customers[].email", "E-Mail-Adresse"),
        ("customers.0", "Kunden"),
        ("billing_address1", "Rechnungsadresse 1"),
        ("unknown.0.field", ""),
        ("", ""),
    ],
)
def test_a_field_has_its_german_term_beside_its_wire_name(path: str, label: str) -> None:
    assert Formats("de").label(path) == label
    assert Formats("en").label(path) == ""
