"""What becomes of a field: rows, a column of JSON, or a column of its own."""

from collections.abc import Iterator

from msgspec import inspect

TABLE_OF_FIELD = {
    "customers": "customer",
    "supply_addresses": "supply_address",
    "supply_points": "supply_point",
    "agreements": "agreement",
    "melos": "melo",
    "meters": "meter",
    "registers": "register",
    "readings": "reading",
    "statements": "statement",
    "ledgers": "ledger",
    "payment_instructions": "payment_instruction",
    "payment_schedules": "payment_schedule",
    "amounts": "delivery_note_amount",
    "line_items": "market_participant_invoice_line_item",
    "tax_amounts": "market_participant_invoice_tax_amount",
    "contact_details": "market_participant_contact",
    "article_prices": "price_sheet_article_price",
}
"""Lists whose items are rows; others are columns of their parent."""
FOLDED_OBJECTS = ("params",)
"""Objects inside an object that are one column; of others each field is one."""


def without_null(node: inspect.Type) -> inspect.Type:
    if isinstance(node, inspect.UnionType):
        return next(member for member in node.types if not isinstance(member, inspect.NoneType))
    return node


def is_free(node: inspect.Type) -> bool:
    """Whether importers may say anything there."""
    return isinstance(node, inspect.AnyType | inspect.DictType) or (
        isinstance(node, inspect.VarTupleType) and isinstance(node.item_type, inspect.AnyType)
    )


def folded_type(node: inspect.StructType) -> str:
    """The SQL type of a column that holds a list of such objects."""
    return "json" if any(map(is_free, kinds_of(node))) else "jsonb"


def place_of_member(name: str) -> tuple[int, str]:
    """The order in which Postgres keeps the members of JSONB; any other it has to sort, a third of reading it."""
    return len(name), name


def has_moments(node: inspect.StructType) -> bool:
    """Whether there are datetimes in such an object, or in one inside it."""
    return any(isinstance(kind, inspect.DateTimeType) for kind in kinds_of(node))


def kinds_of(node: inspect.StructType) -> Iterator[inspect.Type]:
    """The types of an object's fields, and of those of the objects inside it."""
    for field in node.fields:
        kind = without_null(field.type)
        yield kind
        inner = kind.item_type if isinstance(kind, inspect.VarTupleType) else kind
        if isinstance(inner, inspect.StructType):
            yield from kinds_of(inner)
