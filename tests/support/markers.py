"""Tests by the names in their markers, such as `@pytest.mark.promise("body-limit")`."""

import ast
from collections.abc import Iterator

from tests.support.folders import ROOT
from tests.support.sources import parsed

FOLDERS = ("checks", "tests")


def marked_tests(*markers: str) -> dict[str, list[str]]:
    """Return the tests with one of these markers as `file::name`, by each name that the marker has."""
    tests: dict[str, list[str]] = {}
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("test_*.py")):
            for node in parsed(file).body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    for name in _names(node, markers):
                        tests.setdefault(name, []).append(f"{file.relative_to(ROOT)}::{node.name}")
    return tests


def _names(test: ast.FunctionDef | ast.AsyncFunctionDef, markers: tuple[str, ...]) -> Iterator[str]:
    wanted = {f"pytest.mark.{marker}" for marker in markers}
    for marker in test.decorator_list:
        if isinstance(marker, ast.Call) and ast.unparse(marker.func) in wanted:
            yield from (str(ast.literal_eval(name)) for name in marker.args)
