"""Files that nobody but their owner reads, whatever the folder and the umask allow."""

import os
from pathlib import Path
from typing import IO, Literal

MODE = 0o600


def open_private(path: Path, mode: Literal["wb", "ab"] = "wb") -> IO[bytes]:
    """Open for writing, made for the owner alone; one that was there already is for the owner alone from now on."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if mode == "wb" else os.O_APPEND)
    descriptor = os.open(path, flags, MODE)
    try:
        os.fchmod(descriptor, MODE)
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, mode)
