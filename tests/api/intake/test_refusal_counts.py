"""Refusals are counted in the log, without any text of an importer."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.intake.refusal_counts import MAX_PLACES, OTHER, RefusalCounts, places_of
from eventstore.aggregates.run import REFUSALS, RequestsRefused
from eventstore.log.ledger import Ledger
from schemas.base import Problem
from schemas.reading.documented_paths import documented_path, path_pattern
from tests.support.following import events_of


def test_refusals_are_counted_by_code_and_place(ledger: Ledger) -> None:
    counts = RefusalCounts(ledger)
    for number in range(3):
        counts.count(
            "S",
            places_of(
                [Problem(f"customers.{number}.email", "invalid", "x"), Problem("customers.9.email", "invalid", "x")]
            ),
        )
    counts.count("S", places_of([Problem("customers.0.secret", "unknown_field", "x")]))
    asyncio.run(counts.append())
    asyncio.run(counts.append())
    [recorded] = events_of(ledger, REFUSALS)
    assert isinstance(recorded.event, RequestsRefused)
    assert recorded.event.counts == {"invalid@customers[].email": 3, "unknown_field@customers[].*": 1}
    assert recorded.supplier == "S"


def test_the_number_of_places_is_bounded(ledger: Ledger) -> None:
    counts = RefusalCounts(ledger)
    counts.count("S", places_of([Problem("email", f"code{number}", "x") for number in range(2 * MAX_PLACES)]))
    asyncio.run(counts.append())
    [recorded] = events_of(ledger, REFUSALS)
    assert isinstance(recorded.event, RequestsRefused)
    assert len(recorded.event.counts) == MAX_PLACES + 1
    assert recorded.event.counts[OTHER] == MAX_PLACES


@pytest.mark.promise("name-undocumented-field-every")
@pytest.mark.parametrize(
    ("attr", "place"),
    [
        ("customers.0.landline", "customers[].landline"),
        ("supply_addresses.1.supply_points.2.non_field_errors", "supply_addresses[].supply_points[].non_field_errors"),
        ("metadata.0.value.Erika Mustermann", "metadata[].value.*"),
        ("non_field_errors", "non_field_errors"),
    ],
)
def test_a_place_holds_documented_names_only(attr: str, place: str) -> None:
    assert path_pattern(attr) == place


@pytest.mark.promise("name-undocumented-field-every")
@pytest.mark.parametrize(
    ("attr", "path"),
    [
        ("customers.0.landline", "customers.0.landline"),
        ("customers.0.Erika Mustermann", "customers.0.*"),
        ("Mustermann.0.Erika", "*.0.*"),
        ("metadata.0.value.a.non_field_errors", "metadata.0.value.*.non_field_errors"),
    ],
)
def test_a_path_that_is_kept_names_no_undocumented_field(attr: str, path: str) -> None:
    assert documented_path(attr) == path


@pytest.mark.promise("name-undocumented-field-every")
@given(st.from_regex(r"[0-9]{5,64}", fullmatch=True) | st.text("٠١٢²", min_size=1))
def test_a_name_of_digits_is_no_index(name: str) -> None:
    assert documented_path(f"customers.9999.{name}") == "customers.9999.*"
    assert path_pattern(f"{name}.0") == "*[]"
