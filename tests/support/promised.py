"""The column `tests` of docs/reference/contract.md and docs/reference/promises.md, from the markers `promise` on tests.

The comment at the end of its sentence names a row; `@pytest.mark.promise("name")` marks a test that verifies it.
`python -m tests.support.promised` writes both pages.
"""

import re

from tests.support.folders import ROOT
from tests.support.markers import marked_tests

PAGES = (ROOT / "docs" / "reference" / "contract.md", ROOT / "docs" / "reference" / "promises.md")
ROW = re.compile(r"^(?P<sentence>\| .* <!-- (?P<name>[a-z0-9-]+) -->) \|.*\|$", re.MULTILINE)


def rows(page: str) -> list[str]:
    """The names of a page's rows."""
    return [row["name"] for row in ROW.finditer(page)]


def filled(page: str, tests: dict[str, list[str]]) -> str:
    """The page with the tests of each row. Pure."""
    return ROW.sub(
        lambda row: f"{row['sentence']} | {', '.join(f'`{test}`' for test in tests.get(row['name'], ()))} |", page
    )


def main() -> None:
    tests = marked_tests("promise")
    for page in PAGES:
        page.write_text(filled(page.read_text(), tests))


if __name__ == "__main__":
    main()
