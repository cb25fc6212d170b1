"""Every field of an account becomes rows, JSON or a column, by its kind alone."""

from msgspec import inspect

from projections.platform.storage import TABLE_OF_FIELD, folded_type, has_moments, is_free, kinds_of, without_null
from schemas.account import Account, MetadataItem, Reference
from schemas.supply import SupplyPoint


def node_of(wire_type: type) -> inspect.StructType:
    node = inspect.type_info(wire_type)
    assert isinstance(node, inspect.StructType)
    return node


def test_a_list_in_which_importers_may_say_anything_stays_as_it_was_sent() -> None:
    assert folded_type(node_of(MetadataItem)) == "json"
    assert folded_type(node_of(Reference)) == "jsonb"


def test_moments_are_found_however_deep_they_are() -> None:
    assert has_moments(node_of(SupplyPoint))
    assert not has_moments(node_of(Reference))


def test_the_kinds_of_an_object_are_those_of_the_objects_inside_it_too() -> None:
    kinds = list(kinds_of(node_of(Account)))
    assert any(isinstance(kind, inspect.DecimalType) for kind in kinds), "of a payment schedule"
    assert not any(isinstance(kind, inspect.UnionType) and without_null(kind) is kind for kind in kinds)
    assert sum(map(is_free, kinds)) == 2, "network charges, and the value of a metadata item"


def test_lists_that_become_rows_are_fields_of_a_shape() -> None:
    fields = {field.name for kind in kinds_of(node_of(Account)) if isinstance(kind, inspect.StructType)
              for field in kind.fields}  # fmt: skip
    items = {field.name for field in node_of(Account).fields} | fields
    assert {"customers", "payment_schedules"} <= items & TABLE_OF_FIELD.keys()
