"""Masked values of personal data."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

import api
from projections.platform.json_columns import is_free, without_null
from projections.platform.tables import TABLES, table_columns
from redaction import masking
from redaction.masking import DOTS, masked_path, masked_tree
from schemas.account import Account
from schemas.delivery_note import DeliveryNoteImport
from schemas.energy_amount import EnergyAmountImport
from schemas.invoice import MarketParticipantInvoiceImport
from schemas.price_sheet import FeeImport

EXAMPLE = json.loads((Path(api.__file__).parent / "examples" / "account.json").read_bytes())
NAMES = st.text(min_size=1).filter(str.strip) | st.sampled_from(["status", "code", "value", "01701234567", "customers"])
PERSONAL = {
    *("given_name", "family_name", "email", "mobile", "landline", "date_of_birth", "title", "salutation"),
    *("billing_address1", "billing_postcode", "supply_postcode", "iban", "account_holder", "account_number"),
    *("external_account_number", "body", "identifier", "melo_number", "meter_number", "reference", "statement_path"),
}


@pytest.mark.parametrize(
    ("mask", "text", "masked"),
    [
        ("mask_name", "Anna-Lena Müller", "A••• M•••"),
        ("mask_name", None, ""),
        ("mask_email", "anna@example.org", "a•••@e•••.org"),
        ("mask_email", "no address", "•••"),
        ("mask_phone", "+49 170 1234567", "••• 67"),
        ("mask_phone", "110", "•••"),
        ("mask_iban", "DE02 1203 0000 0000 2020 51", "DE•• ••• 51"),
        ("mask_postcode", "10115", "10•••"),
        ("mask_date", "1980-05-17", "1980-••-••"),
        ("mask_text", "abc", "•••"),
        ("mask_text", 12345, "1•••"),
    ],
)
def test_what_is_left_says_which_and_not_who(mask: str, text: object, masked: str) -> None:
    assert getattr(masking, mask)(text) == masked


def leaves(value: object, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], object]:
    if isinstance(value, dict):
        return {k: v for name, below in value.items() for k, v in leaves(below, (*path, name)).items()}
    if isinstance(value, list):
        return {k: v for index, below in enumerate(value) for k, v in leaves(below, (*path, str(index))).items()}
    return {path: value}


@pytest.mark.asvs("V8.2.3")
def test_a_payload_keeps_its_shape_and_shows_no_person() -> None:
    masked = leaves(masked_tree(EXAMPLE))
    plain = {path: value for path, value in leaves(EXAMPLE).items() if masked_path(path) == path}
    assert plain.keys() <= masked.keys()
    for path, value in plain.items():
        if path[-1] in PERSONAL and value not in (None, "", True, False):
            assert masked[path] != value, path
    assert masked["supply_addresses", "0", "supply_points", "0", "supply_type"] == "ELECTRICITY"


def test_an_object_in_the_place_of_a_text_shows_nothing_of_a_person() -> None:
    tree = {"customers": [{"family_name": {"code": "Anna Müller", "is_pinned": True}}]}
    masked = {"customers": [{"family_name": {"c••• (1)": "A•••", "i••• (2)": "T•••"}}]}
    assert masked_tree(tree) == masked


def test_what_nobody_has_thought_of_is_masked() -> None:
    tree = {"nickname": "Anni", "metadata": [{"key": "Mutter", "value": {"status": "Witwe"}}], "n": 12345678}
    assert masked_tree(tree) == {
        "nickname": "A•••",
        "metadata": [{"key": "M•••", "value": {"s••• (1)": "W•••"}}],
        "n": "1•••",
    }


FREE = ("network_charges", "paid_in_advance_amounts", "price_interval", "quantity_interval", "undocumented")
VALUES = st.one_of(st.text(), st.booleans(), st.integers(10_000), st.floats(allow_nan=False))
TREES = st.recursive(VALUES, lambda below: st.lists(below) | st.dictionaries(NAMES, below), max_leaves=5)


@pytest.mark.promise("members-free-objects-masked")
@given(st.sampled_from([("metadata", "0", "value"), *((name,) for name in FREE)]), st.dictionaries(NAMES, TREES))
def test_members_of_free_objects_are_masked_with_their_names(path: tuple[str, ...], free: dict[str, object]) -> None:
    """Names of harmless fields, such as a status, and telephone numbers are masked too."""
    for place, value in leaves(masked_tree(free, path=path)).items():
        assert value in (None, "") or DOTS in str(value)
        assert all(DOTS in step for step in place if not step.isdigit())
    for place in leaves(free):
        shown = masked_path((*path, *place))
        assert shown[: len(path)] == path
        assert all(DOTS in step for step in shown[len(path) :] if not (step.isdigit() and len(step) < 5))


def test_every_documented_object_is_known_and_no_free_one() -> None:
    documented: set[str] = set()
    free: set[str] = set()
    for wire in (Account, DeliveryNoteImport, EnergyAmountImport, MarketParticipantInvoiceImport, FeeImport):
        for name, kind in members_of(inspect.type_info(wire)):
            (documented if isinstance(kind, inspect.StructType) else free).add(name)
    assert documented <= masking._OBJECTS
    assert not free & masking._OBJECTS


def members_of(node: inspect.Type) -> Iterator[tuple[str, inspect.Type]]:
    """The objects below, and fields that take any JSON, by name."""
    assert isinstance(node, inspect.StructType)
    for field in node.fields:
        kind = without_null(field.type)
        inner = kind.item_type if isinstance(kind, inspect.VarTupleType) else kind
        if isinstance(inner, inspect.StructType):
            yield field.name, inner
            yield from members_of(inner)
        elif is_free(kind):
            yield field.name, kind


def test_places_that_were_asked_for_are_shown() -> None:
    tree = {"customers": [{"given_name": "Anna"}, {"given_name": "Bernd"}]}
    assert masked_tree(tree, {"customers.0"})["customers"] == [{"given_name": "Anna"}, {"given_name": "B•••"}]


def test_every_harmless_name_is_one_of_the_wire_or_the_platform() -> None:
    known = {name for path in leaves(msgspec.json.schema(Account)) for name in path}
    others = {"cancelled", "is_dry_run", "schedule_window_start", "schedule_window_end", "quantity_in"}
    columns = {name for table in TABLES for name, _ in table_columns(table)}
    assert masking.HARMLESS - known - others - columns == set()
