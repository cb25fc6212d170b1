"""SQL expressions of a mapping: a part of DuckDB's language, checked on the syntax tree that DuckDB makes of them.

An expression reads only the columns of one row: no file, no other row and no setting.
"""

import functools
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from importledger_client.language import _
from importledger_client.values import date_form, number_form

if TYPE_CHECKING:
    import duckdb

_TEXT = "|| ~~ !~~ concat concat_ws contains ends_with left length lower ltrim regexp_extract regexp_matches"
_MORE = "regexp_replace replace right rtrim split_part starts_with strpos substring trim upper"
_OTHER = "+ - * / abs greatest least month nullif round year"
_FUNCTIONS = frozenset(f"{_TEXT} {_MORE} {_OTHER}".split())
_READERS = frozenset({"number", "day"})
"""Functions that read a column as a number or a day. Their names are the kinds of their conversions."""
_CLASSES = frozenset(
    ["BETWEEN", "CASE", "CAST", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "OPERATOR"]
)
_TYPES = frozenset(
    ["COMPARE_IN", "COMPARE_NOT_IN", "OPERATOR_COALESCE", "OPERATOR_IS_NOT_NULL", "OPERATOR_IS_NULL", "OPERATOR_NOT"]
)
"""Permitted types of class OPERATOR."""


class Expression:
    """An expression, with the `columns` that it reads. Raises ValueError, with a sentence."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tree = _tree(text)
        for node in _nodes(self._tree):
            _check(node)
        self.readers = list(dict.fromkeys(_reader(node) for node in _nodes(self._tree) if _is_reader(node)))
        """Triples (column, kind, form) for columns that are read as a number or a day.

        The form is "" if it is not set.
        """
        plain = [_column(node) for node in _nodes(self._tree) if _is(node, "COLUMN_REF")]
        self.columns = list(dict.fromkeys([*plain, *(column for column, *_kind in self.readers)]))

    def sql(self, name: Callable[[str], str], read: Callable[[str, str, str], str]) -> str:
        """Return the expression over the engine's columns. `name` and `read` return their names."""
        tree = json.loads(json.dumps(self._tree))
        for node in list(_nodes(tree)):
            if _is_reader(node):
                found = read(*_reader(node))
            elif _is(node, "COLUMN_REF"):
                found = name(_column(node))
            else:
                continue
            node.clear()
            node |= {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": "", "column_names": [found]}
        whole = _serialized("1")
        whole["statements"][0]["node"]["select_list"] = [tree]
        sql = _parser().execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(whole)]).fetchone()
        assert sql is not None, "a query returns a row"
        return f"({str(sql[0]).removeprefix('SELECT ')})"


@functools.cache
def expression(text: str) -> Expression:
    """Return an expression. Raises ValueError, with a sentence."""
    return Expression(text)


@functools.cache
def _parser() -> "duckdb.DuckDBPyConnection":
    import duckdb  # imported here: importing takes a moment, which other verbs need not wait for

    return duckdb.connect(":memory:", config={"threads": 1, "enable_external_access": False})


def _serialized(text: str) -> Any:
    found = _parser().execute("SELECT json_serialize_sql(?)", [f"SELECT {text}\n"]).fetchone()
    assert found is not None, "a query returns a row"
    return json.loads(found[0])


def _tree(text: str) -> Any:
    """Return the syntax tree of an expression. Raises ValueError for any other SQL."""
    found, empty = _serialized(text), _serialized("1")
    if found.get("error"):
        reason = found.get("error_message")
        raise ValueError(_("{text!r} must be an expression: {reason}", text=text, reason=reason))
    trees = [whole["statements"][0]["node"].pop("select_list", []) for whole in (found, empty)]
    if found != empty or len(trees[0]) != 1 or trees[0][0]["alias"]:
        raise ValueError(_("{text!r} must be one expression, without SELECT, FROM and AS.", text=text))
    return trees[0][0]


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield the nodes of a tree, parents first, except nodes below a reader or a cast."""
    if isinstance(tree, dict):
        if "class" in tree:
            yield tree
            if _is_reader(tree) or _is(tree, "CAST"):
                return
        for part in tree.values():
            yield from _nodes(part)
    elif isinstance(tree, list):
        for part in tree:
            yield from _nodes(part)


def _is(node: dict[str, Any], kind: str) -> bool:
    return node.get("class") == kind


def _is_reader(node: dict[str, Any]) -> bool:
    return _is(node, "FUNCTION") and node["function_name"].lower() in _READERS


def _reader(node: dict[str, Any]) -> tuple[str, str, str]:
    """Return (column, kind, form) of `number(COLUMN)` or `day(COLUMN, 'DD.MM.YYYY')`. Raises ValueError."""
    name, parts = node["function_name"].lower(), [argument["expression"] for argument in node["arguments"]]
    forms = [
        part["literal"]["text"] for part in parts[1:] if _is(part, "CONSTANT") and part["literal"]["kind"] == "STRING"
    ]
    if not parts or not _is(parts[0], "COLUMN_REF") or len(parts) > 2 or len(forms) != len(parts) - 1:
        raise ValueError(
            _("{name} must have a column, and may have a form in quotes: {name}(COLUMN, 'FORM').", name=name)
        )
    for form in forms:
        (number_form if name == "number" else date_form)(form)
    return _column(parts[0]), name, forms[0] if forms else ""


def _column(node: dict[str, Any]) -> str:
    if len(node["column_names"]) != 1:
        name = ".".join(node["column_names"])
        raise ValueError(_("{name} must be the name of a column, without its table.", name=name))
    return str(node["column_names"][0])


def _check(node: dict[str, Any]) -> None:
    """Raise ValueError for a part of SQL that expressions do not have."""
    name = node["class"]
    is_permitted = name in _CLASSES
    if name == "FUNCTION":
        name = node["function_name"].lower()
        extras = node["distinct"], node["filter"], node["schema"], node["catalog"], node["order_bys"]["orders"]
        is_named = any(argument["name"] for argument in node["arguments"])
        is_permitted = (name in _FUNCTIONS or name in _READERS) and not any(extras) and not is_named
    elif name == "OPERATOR":
        name = node["type"]
        is_permitted = name in _TYPES
    elif name == "CAST":
        is_permitted = (
            _is(node["child"], "CONSTANT") and node["type_expr"]["type_name"] == "DATE" and not node["try_cast"]
        )
    if not is_permitted:
        raise ValueError(
            _("{name} is not a part of expressions: see the list in the reference of the mapping language.", name=name)
        )
