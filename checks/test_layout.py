"""Rules for the tests: helpers are in tests/support, and nothing depends on the random seed of `hash`."""

import ast
import tomllib
from pathlib import Path

from tests.support.sources import nodes, parsed

TESTS = Path(__file__).parents[1] / "tests"
FILES = sorted(TESTS.rglob("*.py"))


def imported(file: Path) -> set[str]:
    """Return the names of imported modules. A name that is imported from a module counts as a module below it."""
    names = set()
    for node in nodes(file):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name their module in full"
            names |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_no_test_imports_another_test() -> None:
    for file in FILES:
        steps = {step for module in imported(file) if module.startswith("tests.") for step in module.split(".")}
        assert not [step for step in steps if step.startswith("test_") or step == "conftest"], file


def test_no_test_depends_on_the_random_seed_of_hash() -> None:
    for file in FILES:
        calls = [node.func for node in nodes(file) if isinstance(node, ast.Call)]
        assert not [call for call in calls if isinstance(call, ast.Name) and call.id == "hash"], file


def test_the_guide_for_developers_names_each_package_with_the_first_line_of_its_docstring() -> None:
    guide = (TESTS.parent / "docs" / "reference" / "packages.md").read_text()
    packages = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    for name in packages:
        docstring = ast.get_docstring(parsed(TESTS.parent / name.replace(".", "/") / "__init__.py")) or ""
        assert f"`{name.rsplit('.', 1)[-1]}/` | {docstring.splitlines()[0]} |" in guide, name
