"""House rules of the tests themselves: helpers stand in tests/support, modules have mirrors, and chance has a seed."""

import ast
import re
import tomllib
from pathlib import Path

from tests.support.sources import nodes, parsed

TESTS = Path(__file__).parents[1] / "tests"
FILES = sorted(TESTS.rglob("*.py"))
MODULES = sorted(
    file
    for folder in ("eventstore/log", "projections", "workers")
    for file in (TESTS.parent / folder).rglob("*.py")
    if file.name != "__init__.py"
)
DECLARATIONS = {
    "projections/platform/account_numbers.py": "names a table and a sequence for backups, whose tests read both",
}
"""Modules that hold nothing which could go wrong by itself, and why."""
TOGETHER = {
    "workers/operations.py": "workers/followers/test_user_tasks.py",
    "projections/unlogged/sessions.py": "console/screens/test_signing_in.py",
    "projections/unlogged/typed_reasons.py": "console/screens/test_signing_in.py",
    "projections/unlogged/user_details.py": "console/screens/test_signing_in.py",
    "workers/followers/task_progress.py": "workers/followers/test_owner_tasks.py",
    "projections/views/console_user.py": "console/screens/test_signing_in.py",
    "projections/views/disclosure.py": "console/screens/test_personal_data.py",
    "projections/views/owner_task.py": "workers/followers/test_owner_tasks.py",
}
"""Modules that a test takes together with others, since neither does anything alone."""


def imported(file: Path) -> set[str]:
    """The modules that are imported, and the names imported from packages as if they were modules."""
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


def test_a_module_of_log_workers_and_projections_has_its_mirror() -> None:
    for module in MODULES:
        name = str(module.relative_to(TESTS.parent))
        if name in DECLARATIONS:
            assert not re.search(r"^\s*(async )?def ", module.read_text(), re.M), f"{name} does something by now"
            continue
        mirror = TESTS / TOGETHER.get(name, module.relative_to(TESTS.parent).with_name(f"test_{module.name}"))
        assert mirror.exists(), f"{name} needs {mirror.relative_to(TESTS.parent)}"


def test_the_guide_for_developers_names_each_package_with_the_first_line_of_its_docstring() -> None:
    guide = (TESTS.parent / "docs" / "developing.md").read_text()
    packages = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    for name in packages:
        docstring = ast.get_docstring(parsed(TESTS.parent / name.replace(".", "/") / "__init__.py")) or ""
        assert f"`{name.rsplit('.', 1)[-1]}/` | {docstring.splitlines()[0]} |" in guide, name
