"""Objects of payloads made again from their rows, in SQL: the inverse of `projections.platform.rows`.

Both modules use the same declaration of tables. An object has the imported content in a uniform spelling: datetimes are
in UTC, decimals are as Postgres writes them (without leading zeros and -0), and absent, null and empty fields are left
out.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import Any

import msgspec
from msgspec import NODEFAULT, inspect

from projections.platform.json_columns import encode_json, is_free, without_null
from projections.platform.tables import Column, Table, primary_key
from schemas.base import Wire


def select_objects(root: Table, account: str) -> str:
    """Return the query for the key and the JSON of an account's objects `t` in a root table.

    `account` is the SQL of its number. The columns are the key without the account number, and `content`. Rows of a
    table are read and grouped once per account, so the work is linear in the number of rows.
    """
    key = "".join(f't."{name}", ' for name in primary_key(root)[1:])
    return f"""
SELECT {key}{_object(root)} AS content FROM platform."{root.name}" AS t {_joins(root, account)}
WHERE t.account_number = {account}"""  # noqa: S608 - names of tables and columns


def _joins(table: Table, account: str) -> str:
    """Return the joins with the lists of a table's children, grouped by their parent."""
    return "".join(_join(child, table, account) for child in table.children)


def _join(child: Table, parent: Table, account: str) -> str:
    references = [name for name, _ in child.key[1:]]
    above = [f"{child.parent}_ordinal"] if child.parent else []
    grouped = ", ".join(f't."{name}"' for name in [*references, *above])
    conditions = [f'"{child.name}"."{name}" = t."{name}"' for name in references]
    conditions += [f'"{child.name}"."{name}" = t.ordinal' for name in above]
    return f"""
LEFT JOIN (
    SELECT {grouped}{", " if grouped else ""}string_agg({_object(child)}, ',' ORDER BY t.ordinal) AS items
    FROM platform."{child.name}" AS t {_joins(child, account)}
    WHERE t.account_number = {account}
    {"GROUP BY " + grouped if grouped else ""}
) AS "{child.name}" ON {" AND ".join(conditions) or "true"}"""  # noqa: S608 - names of tables and columns


def _object(table: Table) -> str:
    """Return the SQL of the JSON of an object `t`. Columns that are NULL are left out."""
    columns = [column for column in table.columns if column.steps]
    fields = [f"'\"{name}\":' || {value}" for name, value in _fields(columns)]
    fields += [f"""'"{child.field}":[' || coalesce("{child.name}".items, '') || ']'""" for child in table.children]
    return f"concat('{{', array_to_string(ARRAY[{', '.join(fields)}], ','), '}}')"


def _fields(columns: Sequence[Column]) -> Iterator[tuple[str, str]]:
    """Yield the name of each field and the SQL of its JSON. Columns of an inner object are put together."""
    for name, group in groupby(columns, lambda column: column.steps[0]):
        of_field = [*group]
        inner = [f"""'"{column.steps[1]}":' || {_value(column)}""" for column in of_field if len(column.steps) > 1]
        match of_field[0]:
            # a column for the object, and a column for each field that may have any JSON
            case whole if len(whole.steps) == 1 and inner:
                yield name, f"left({_value(whole)}, -1) || {_joined(inner, before=',')} || '}}'"
            case whole if len(whole.steps) == 1:
                yield name, _value(whole)
            case _:
                yield name, f"'{{' || nullif({_joined(inner)}, '') || '}}'"


def _joined(fields: Sequence[str], before: str = "") -> str:
    text = f"array_to_string(ARRAY[{', '.join(fields)}], ',')"
    return f"coalesce('{before}' || nullif({text}, ''), '')" if before else text


def _value(column: Column) -> str:
    return column.as_json.format(f't."{column.name}"')


def object_writer(wire_type: type[Wire]) -> Callable[[str], bytes]:
    """Return the function that writes an object of `select_objects` without empty fields.

    Decimals and values of any JSON keep their bytes. Texts are not checked, because the rules may have changed since
    the import.
    """
    decode = msgspec.json.Decoder(_sparse(wire_type)).decode
    return lambda content: encode_json(decode(content))


@cache
def _sparse(wire_type: type) -> type[msgspec.Struct]:
    """Return a copy of a shape with values of any type, which leaves out empty fields when it is written."""
    node = inspect.type_info(wire_type)
    assert isinstance(node, inspect.StructType)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for field in node.fields:
        written = _sparse_type(without_null(field.type))
        default = None if field.default is NODEFAULT else field.default
        fields.append((field.name, written) if field.required else (field.name, written, default))
    return msgspec.defstruct(wire_type.__name__, fields, module=__name__, kw_only=True, omit_defaults=True, gc=False)


def _sparse_type(node: inspect.Type) -> Any:
    match node:
        case inspect.StructType(cls=inner):
            return _sparse(inner) | None
        case inspect.VarTupleType(item_type=inspect.StructType(cls=inner)):
            return tuple[_sparse(inner), ...]  # type: ignore[misc]
        case inspect.VarTupleType():
            return tuple[Any, ...]
        case _ if is_free(node) or isinstance(node, inspect.DecimalType):  # as a float, a decimal could lose digits
            return msgspec.Raw
        case _:
            return Any
