"""The data folder of one service: its files, its lock and the folder of its sockets."""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import tempfile
from pathlib import Path
from typing import IO

from embedded.user import RunAs
from eventstore.errors import OperatorError

SOCKET_PATH_MAX = 90
"""Bytes of the path of a folder of sockets, since the system allows 107 with the file name.

For longer paths, a short path is used.
"""


class FolderInUse(OperatorError):
    """Another service runs on this data folder."""


class FolderUnreachable(OperatorError):
    """The data folder is not writable, or the servers' user cannot reach it."""


class DataFolder:
    """Postgres, Redis, secrets and the lock of one service, below `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock: IO[str] | None = None

    def create(self, user: RunAs) -> None:
        """Create the folder and its `secrets`, and allow the servers' user to enter it; parent folders are not changed.

        Raises FolderUnreachable if the servers' user cannot enter it, or if it is not writable.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o711)
            with tempfile.TemporaryFile(dir=self.path):
                pass
        except OSError as error:
            raise FolderUnreachable(
                f"Nothing can be written to {self.path}: {error.strerror}. Correct its rights, free disk space, or "
                "choose another --data-dir."
            ) from error
        if user.uid is not None:
            self.path.chmod(self.path.stat().st_mode | 0o011)
            if not user.can_reach(self.path):
                raise FolderUnreachable(
                    f"As root, the servers run as user id {user.uid}, which cannot reach {self.path}. "
                    "Choose another --data-dir, such as /var/lib/importledger."
                )
        (self.path / "secrets").mkdir(mode=0o700, exist_ok=True)

    def lock(self) -> None:
        """Lock the folder for this process. Raises FolderInUse. The lock of a killed process is free."""
        file = (self.path / "lock").open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise FolderInUse(
                f"Another service is running on {self.path}. Stop it, or choose another --data-dir."
            ) from None
        self._lock = file

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def secret(self, name: str) -> str:
        """Return a secret of this service, which is created at first use."""
        file = self.path / "secrets" / name
        if not file.exists():
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            unfinished = _private(file.with_suffix(f".{os.getpid()}"), secrets.token_urlsafe(32))
            try:
                with contextlib.suppress(FileExistsError):  # if two processes create the secret, the first wins
                    os.link(unfinished, file)
            finally:
                unfinished.unlink()
        return file.read_text()

    def known_secret(self, name: str) -> str | None:
        """Return a secret; None if it was not created yet."""
        try:
            return (self.path / "secrets" / name).read_text()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def socket_folder(self, user: RunAs) -> Path:
        """Return a folder for sockets that only the servers' user may enter; a temporary folder if the path is too
        long.
        """
        run = self.path / "run"
        if len(os.fsencode(run)) > SOCKET_PATH_MAX or "," in str(run):
            run = (
                Path(tempfile.gettempdir()) / f"importledger-{hashlib.sha256(os.fsencode(self.path)).hexdigest()[:12]}"
            )
        return user.create_owned(run)

    def write_connections(self, connections: dict[str, str]) -> None:
        """Write the URLs of the running service for the command line."""
        file = self.path / "secrets" / "connections.json"
        _private(file.with_suffix(".unfinished"), json.dumps(connections)).rename(file)

    @property
    def roles_file(self) -> Path:
        """File from which the api processes read the roles that fail at every start."""
        return self.path / "secrets" / "dying_roles.json"

    def empty_metrics(self) -> Path:
        """Return the folder of the roles' metrics, after deleting the metrics of earlier processes."""
        folder = self.path / "metrics"
        folder.mkdir(mode=0o700, exist_ok=True)
        for file in folder.glob("*.db"):
            file.unlink()
        return folder

    def write_failing_roles(self, failing: dict[str, str]) -> None:
        """Write the roles that fail at every start, with their last log lines, for the api processes.

        Writes no file on a full disk.
        """
        with contextlib.suppress(OSError):
            _private(self.roles_file.with_suffix(".unfinished"), json.dumps(failing)).rename(self.roles_file)

    def read_connections(self) -> dict[str, str] | None:
        text = self.known_secret("connections.json")
        return None if text is None else dict(json.loads(text))


def _private(file: Path, text: str) -> Path:
    """Write a file that only this user can read."""
    file.touch(mode=0o600)
    file.write_text(text)
    return file
