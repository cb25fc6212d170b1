"""Paths of documents below the root that the platform team has set for the supplier."""

import re
from collections.abc import Collection
from urllib.parse import unquote

_MAX_DECODINGS = 3
_ROOT = re.compile(r"(?:(?=file:///)|(?!file:))([a-z0-9]+)://([A-Za-z0-9._-]*)((?:/[^?#]*)?)\Z")
_PLAIN = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9_. -]*/)*[A-Za-z0-9_-][A-Za-z0-9_. -]*\Z")
"""Paths that need no further check: steps begin with a letter or digit and have no percent signs."""


def path_below_root(path: str) -> str | None:
    """Return the document path relative to the root, without empty steps; None for a path that leaves the root.

    A path that begins with a slash begins at the root. Percent signs are part of a name, but the decoded path must not
    leave the root either.
    """
    if _PLAIN.match(path):
        return path
    spelled = path
    for _ in range(_MAX_DECODINGS):
        if not _stays_below(spelled):
            return None
        spelled = unquote(spelled)
    return "/".join(step for step in path.split("/") if step) if _stays_below(spelled) else None


def is_below_root(path: str) -> bool:
    return _PLAIN.match(path) is not None or path_below_root(path) is not None


def _stays_below(path: str) -> bool:
    steps = [step for step in path.split("/") if step]
    return bool(steps) and "\\" not in path and path.isprintable() and not {".", ".."}.intersection(steps)


def is_root_below(root: str, prefixes: Collection[str]) -> bool:
    """Return whether a documents root equals one of the allowed URLs or is below one. False for an ambiguous URL."""
    steps = _steps_of(root)
    allowed = [steps_of_prefix for steps_of_prefix in map(_steps_of, prefixes) if steps_of_prefix]
    return bool(steps) and any(steps[: len(steps_of_prefix)] == steps_of_prefix for steps_of_prefix in allowed)


def _steps_of(url: str) -> list[str]:
    """Return scheme, bucket and folders of a URL, [] for an ambiguous one."""
    match = _ROOT.match(url)
    if match is None:
        return []
    path = unquote(match[3])
    steps = [step for step in path.split("/") if step]
    if "%" in path or (steps and not _stays_below(path)):
        return []
    return [match[1], match[2], *steps]
