"""House rules of the tests themselves: helpers stand in tests/support, and chance has a seed."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FILES = sorted(TESTS.rglob("*.py"))


def imported(tree: ast.AST) -> set[str]:
    """The modules that are imported, and the names imported from packages as if they were modules."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name their module in full"
            names |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(TESTS)))
def test_no_test_imports_another_test(file: Path) -> None:
    modules = imported(ast.parse(file.read_text()))
    steps = [step for module in modules for step in module.split(".") if module.startswith("tests.")]
    assert not [step for step in steps if step.startswith("test_") or step == "conftest"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(TESTS)))
def test_no_test_depends_on_the_random_seed_of_hash(file: Path) -> None:
    calls = [node.func for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    assert not [call for call in calls if isinstance(call, ast.Name) and call.id == "hash"]
