"""Modules that a process may import before it forks, because none of them imports the changed module."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grimp

from lab.mutation.swapping import module_of


def packages() -> list[str]:
    """Return every package of the project. A module outside of them is a library's and imports none of them."""
    top_packages = [path.parent.name for path in Path().glob("*/__init__.py")]
    return sorted([*top_packages, *(path.parent.name for path in Path("importer/src").glob("*/__init__.py"))])


def imports() -> Any:
    """Return the graph of which module of the project imports which."""
    return grimp.build_graph(*packages(), cache_dir=None)


def unchanged(loaded: Sequence[str], file: str, graph: Any) -> list[str]:
    """Return the loaded modules, without tests, that do not import the file's module, directly or not."""
    importing = _importing(graph, module_of(file))
    return [name for name in loaded if name not in importing and not _is_of_tests(name)]


def _is_of_tests(name: str) -> bool:
    return name.partition(".")[0] in ("__main__", "lab", "tests") and not name.startswith("tests.support")


def _importing(graph: Any, module: str) -> set[str]:
    """Return the modules that import this module, directly or not, with all modules of packages on the way."""
    roots = set(packages())
    found, unvisited = set(), {module}
    while unvisited:
        name = unvisited.pop()
        found.add(name)
        importers = graph.find_downstream_modules(name) | (
            set(graph.find_descendants(name)) if name in roots else set()
        )
        unvisited |= importers - found
    return found
