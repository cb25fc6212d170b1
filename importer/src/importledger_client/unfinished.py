"""Files that are not complete yet: a reader sees the earlier file until the new one is complete."""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

with contextlib.suppress(ImportError):  # Windows has no fcntl: folders of killed processes stay
    import fcntl

UNFINISHED = ".importbook-"
"""Prefix of the folders that hold files until they are complete."""
_YOUNG_S = 60
"""Age of a folder from which on its process must have locked it [seconds]."""


@contextlib.contextmanager
def private_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Yield a new folder with mode 0700, which is deleted at the end [default: in the folder of temporary files].

    Also delete the user's folders with the same prefix that killed processes have left, because they hold personal
    data.
    """
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent) as name:
        lock = os.open(name, os.O_RDONLY) if hasattr(os, "O_DIRECTORY") else None
        try:
            if lock is not None:
                with contextlib.suppress(OSError):  # some network file systems have no locks
                    fcntl.flock(lock, fcntl.LOCK_EX)
                for folder in Path(name).parent.glob(f"{prefix}*"):
                    _delete_if_left(folder)
            yield Path(name)
        finally:
            if lock is not None:
                os.close(lock)


def _delete_if_left(folder: Path) -> None:
    """Delete a folder of this user unless a process has locked it."""
    with contextlib.suppress(OSError):
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            found = os.fstat(lock)
            if found.st_uid == os.geteuid() and time.time() - found.st_mtime > _YOUNG_S:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
        finally:
            os.close(lock)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file. If the disk is full, or the process is killed, an earlier file stays as it was."""
    if path.exists() and not path.is_file():  # a pipe or a terminal
        path.write_bytes(content)
        return
    path = path.resolve()
    with private_folder(UNFINISHED, path.parent) as folder:  # of this process alone: others may write the same file
        part = folder / path.name
        part.write_bytes(content)
        part.replace(path)
