"""Descriptions of the fields of a shape: the docstring below each field of its class."""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect as shapes


def structs_of(types: Sequence[Any]) -> dict[str, type]:
    """Return all Structs in these types and their fields, by name."""
    structs: dict[str, type] = {}
    waiting = list(shapes.multi_type_info(types))
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, shapes.StructType):
            if node.cls.__name__ in structs:
                continue
            structs[node.cls.__name__] = node.cls
            waiting += [field.type for field in node.fields]
        waiting += list(_inner(node))
    return structs


@cache
def field_descriptions(struct: type) -> dict[str, str]:
    """Return the descriptions of a class's fields, including inherited fields, by field name."""
    descriptions: dict[str, str] = {}
    for parent in reversed(struct.__mro__):
        if issubclass(parent, msgspec.Struct) and parent.__module__ != msgspec.Struct.__module__:
            [tree] = ast.parse(textwrap.dedent(inspect.getsource(parent))).body
            assert isinstance(tree, ast.ClassDef)
            descriptions |= dict(_described(tree))
    return descriptions


def _described(tree: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, after in zip(tree.body, tree.body[1:], strict=False):
        match field, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, " ".join(text.split())
            case _:
                pass


def _inner(node: shapes.Type) -> Iterator[shapes.Type]:
    match node:
        case shapes.UnionType(types=types):
            yield from types
        case shapes.VarTupleType(item_type=item) | shapes.ListType(item_type=item):
            yield item
        case shapes.DictType(value_type=value):
            yield value
        case _:
            pass
