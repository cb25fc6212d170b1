"""The column `tests` of docs/contract.md and docs/promises.md, from the markers `promise` on tests.

A row is named by the comment at its sentence's end; `@pytest.mark.promise("name")` says that a test holds it.
`python -m tests.support.promised` writes both pages.
"""

import ast
import re
from collections.abc import Iterator

from tests.support.folders import ROOT
from tests.support.sources import parsed

PAGES = (ROOT / "docs" / "contract.md", ROOT / "docs" / "promises.md")
FOLDERS = ("tests", "checks")
ROW = re.compile(r"^(?P<sentence>\| .* <!-- (?P<name>[a-z0-9-]+) -->) \|.*\|$", re.MULTILINE)


def rows(page: str) -> list[str]:
    """The names of a page's rows."""
    return [row["name"] for row in ROW.finditer(page)]


def marked() -> dict[str, list[str]]:
    """By the name of a row: the tests that hold it, each as `file::name`."""
    tests: dict[str, list[str]] = {}
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("test_*.py")):
            for node in parsed(file).body:
                for name in _promises(node):
                    tests.setdefault(name, []).append(f"{file.relative_to(ROOT)}::{getattr(node, 'name', '')}")
    return tests


def _promises(node: ast.stmt) -> Iterator[str]:
    for decorator in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.promise":
            yield from (ast.literal_eval(argument) for argument in decorator.args)


def filled(page: str, tests: dict[str, list[str]]) -> str:
    """The page with the tests of each row. Pure."""
    return ROW.sub(
        lambda row: f"{row['sentence']} | {', '.join(f'`{test}`' for test in tests.get(row['name'], ()))} |", page
    )


def main() -> None:
    tests = marked()
    for page in PAGES:
        page.write_text(filled(page.read_text(), tests))


if __name__ == "__main__":
    main()
