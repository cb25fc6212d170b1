"""Distance of a test from the code: near tests start no server and run first, and `make test-fast` runs only those."""

from functools import cache
from pathlib import Path

import pytest

from tests.support.folders import ROOT

SERVERS = {"postgres", "redis_url", "service", "bucket"}
"""Fixtures that start a server. `database`, `ledger` and others ask for these."""
NEAR = {"schemas", "market", "eventstore", "projections", "workers", "redaction", "."}
"""Folders whose tests start nothing unless a fixture does."""
LONGEST = (
    "journeys/test_documents.py",
    "faults/test_chaos.py",
    "console/test_journeys.py",
    "console/test_book_journey.py",
    "journeys/test_faults.py",
    "journeys/test_troubles.py",
    "journeys/test_read_only_database.py",
)
"""Files that take 20 s and more. They begin first among those of their distance: none is left at the end."""
PROGRAMS = {"journeys", "faults", "hostile"}
"""Folders whose tests start services of their own."""


def distance(item: pytest.Item) -> int:
    """0: starts nothing. 1: starts programs, which takes long, so that it must not come last. 2: a shared server."""
    if _folder(item) in PROGRAMS or rank(item) < len(LONGEST):
        return 1
    return 2 if SERVERS & _fixtures(item) else 0


def rank(item: pytest.Item) -> int:
    """The order among files of one distance: the longest first, all others as they come."""
    name = "/".join(_place(item.path))
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


def is_fast(item: pytest.Item) -> bool:
    """It starts nothing at all, and is not marked as slow."""
    return _folder(item) in NEAR and not SERVERS & _fixtures(item) and item.get_closest_marker("slow") is None


def _folder(item: pytest.Item) -> str:
    parts = _place(item.path)
    return parts[0] if len(parts) > 1 else "."


@cache
def _place(file: Path) -> tuple[str, ...]:
    """Of a file with hundreds of tests asked once: each process of a run asks for all of them."""
    return file.relative_to(ROOT / "tests" if file.is_relative_to(ROOT / "tests") else ROOT).parts


def _fixtures(item: pytest.Item) -> set[str]:
    return set(getattr(item, "fixturenames", ()))
