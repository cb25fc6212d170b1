"""Folders that a server running as another user can enter."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
"""The repository."""
MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 * 2**30
"""A run of the whole suite in four processes takes a third of this at most."""
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Memory limits of a container. Files in memory count."""


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Not pytest's own: that one is below a folder which an unprivileged server user cannot pass."""
    folder = new_folder("importledger-test-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def new_folder(prefix: str) -> Path:
    """In memory, where there is room: what Postgres asks to be written through, as ever, waits for no disk there."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=MEMORY if _memory_has_room() else None))
    folder.chmod(0o711)
    return folder


@cache
def _memory_has_room() -> bool:
    try:
        is_for_programs = not os.statvfs(MEMORY).f_flag & getattr(os, "ST_NOEXEC", 0)
        limits = [file.read_text().strip() for file in LIMITS if file.exists()]
        bounds = [shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available]
    except OSError:
        return False
    return is_for_programs and min(bounds + [int(limit) for limit in limits if limit.isdecimal()]) > ROOM_BYTES
