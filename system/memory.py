"""Memory that this process may use, in bytes, as the system reports it."""

import os
from pathlib import Path

from system.processors import GROUP, GROUPS, groups_of


def usable_memory(group: Path = GROUP, groups: Path = GROUPS) -> int:
    """Return the machine's memory, or the limit of the container if this limit is lower; 0 if the memory is unknown."""
    files = [folder / "memory.max" for folder in groups_of(group, groups)]
    files.append(groups / "memory" / "memory.limit_in_bytes")  # version 1 of cgroups
    return min([_installed(), *(granted for granted in map(_granted, files) if granted is not None)])


def _installed() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 0


def _granted(file: Path) -> int | None:
    """Return the limit in a file with a number of bytes or `max`; None if there is no limit."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None
