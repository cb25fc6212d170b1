"""Files with mode 0600 in any folder and with any umask."""

import os
from pathlib import Path
from typing import IO, Literal

MODE = 0o600


def open_private(path: Path, mode: Literal["wb", "ab"] = "wb") -> IO[bytes]:
    """Open with mode 0600, also when the file exists. Only appending follows a symbolic link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    flags |= os.O_TRUNC | os.O_NOFOLLOW if mode == "wb" else os.O_APPEND
    descriptor = os.open(path, flags, MODE)
    try:
        os.fchmod(descriptor, MODE)
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, mode)
