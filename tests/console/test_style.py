"""The style sheet's colours: a scheme changes them, and neither a width nor a language does.

So axe need not see each page in every scheme at every width and in every language (`tests/journeys/test_console.py`).
"""

import re
from pathlib import Path

import console

CSS = re.sub(r"/\*.*?\*/", "", (Path(console.__file__).parent / "assets" / "console.css").read_text(), flags=re.S)
COLOURED = re.compile(r"color|background|border|fill|stroke|opacity|filter|shadow|outline|decoration")


def blocks() -> list[tuple[str, str]]:
    """Each condition of the style sheet, and the rules that stand under it."""
    found = re.findall(r"@media ([^{]*)\{((?:[^{}]*\{[^{}]*\})*)\s*\}", CSS)
    assert len(found) == CSS.count("@"), "there is nothing else that is conditional"
    return [(condition.strip(), rules) for condition, rules in found]


def declared(rules: str) -> list[tuple[str, str]]:
    """Selector and property of everything that rules say."""
    return [
        (selector.strip(), said.partition(":")[0].strip())
        for selector, body in re.findall(r"([^{}]*)\{([^{}]*)\}", rules)
        for said in body.split(";")
        if said.strip()
    ]


def test_a_scheme_says_what_colours_are_and_nothing_else() -> None:
    schemes = [rules for condition, rules in blocks() if "color-scheme" in condition]
    assert schemes
    for rules in schemes:
        assert all(selector == ":root" and name.startswith("--") for selector, name in declared(rules))


def test_a_width_changes_no_colour() -> None:
    widths = [rules for condition, rules in blocks() if "width" in condition]
    assert widths
    for rules in widths:
        assert [name for _, name in declared(rules) if name.startswith("--") or COLOURED.search(name)] == []


def test_a_language_changes_nothing() -> None:
    assert "lang" not in "".join(re.findall(r"[^{}]*\{", CSS)).replace(".languages", "")
