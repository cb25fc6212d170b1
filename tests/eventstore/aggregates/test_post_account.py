"""A record is attached once; only its cancellation may change."""

from typing import Any

import pytest

from eventstore.aggregates.post_account import (
    DELIVERY_NOTE,
    ENERGY_AMOUNT,
    ImportRecord,
    RecordCancellationChanged,
    RecordDiffers,
    RecordImported,
    identity_of,
    stream_of,
)
from tests.support.make import DIGEST, NOON, OTHER_DIGEST, Given


def record(content: str = DIGEST, cancellation: str = "n", *, is_cancelled: bool = False) -> dict[str, Any]:
    return {
        "account_number": "A-1",
        "payload_sha256": content,
        "content_sha256": content,
        "cancellation_sha256": cancellation,
        "is_cancelled": is_cancelled,
    }


def given(*events: Any) -> Given:
    return Given(DELIVERY_NOTE, events)


def test_a_new_record_is_attached() -> None:
    given().when(ImportRecord(**record())).then(RecordImported(**record(), imported_at=NOON))


def test_the_same_record_again_changes_nothing() -> None:
    given(RecordImported(**record(), imported_at=NOON)).when(ImportRecord(**record())).then()


def test_a_changed_cancellation_is_an_event() -> None:
    changed = RecordCancellationChanged(
        account_number="A-1", payload_sha256=DIGEST, cancellation_sha256="y", is_cancelled=True, imported_at=NOON
    )
    cancelled = ImportRecord(**record(cancellation="y", is_cancelled=True))
    given(RecordImported(**record(), imported_at=NOON)).when(cancelled).then(changed)
    given(RecordImported(**record(), imported_at=NOON), changed).when(cancelled).then()


def test_other_content_is_refused() -> None:
    given(RecordImported(**record(), imported_at=NOON)).when(ImportRecord(**record(OTHER_DIGEST))).refuses(
        RecordDiffers
    )


def test_other_details_of_the_same_cancellation_are_refused() -> None:
    cancelled = RecordImported(**record(cancellation="y", is_cancelled=True), imported_at=NOON)
    given(cancelled).when(ImportRecord(**record(cancellation="z", is_cancelled=True))).refuses(RecordDiffers)


@pytest.mark.parametrize("external", ["1", "a/b", "ä ö"])
def test_a_stream_names_supplier_account_and_reference(external: str) -> None:
    stream = stream_of(DELIVERY_NOTE, "S", external, "one", "two")
    supplier, account, digest = identity_of(stream)
    assert (supplier, account) == ("S", external)
    assert stream == f"delivery-note/S/{external}/{digest}"
    assert stream != stream_of(DELIVERY_NOTE, "S", external, "onet", "wo")
    assert stream != stream_of(ENERGY_AMOUNT, "S", external, "one", "two")
