"""Folders that a server of another user can enter."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The repository."""


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Not pytest's own: that one is below a folder which an unprivileged server user cannot pass."""
    folder = Path(tempfile.mkdtemp(prefix="importledger-test-"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
