"""Which user the servers run as: the caller, or an unprivileged one where the caller is root."""

import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec


class RunAs(msgspec.Struct, frozen=True):
    """A user and group to drop to; None for both: stay who we are."""

    uid: int | None = None
    gid: int | None = None

    def popen_arguments(self) -> dict[str, Any]:
        """What subprocess needs to start a program as this user."""
        if self.uid is None:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, folder: Path) -> Path:
        """Make the folder, for this user alone."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.take(folder)
        folder.chmod(0o700)
        return folder

    def take(self, path: Path) -> None:
        """Make this user the owner."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)

    def can_reach(self, path: Path) -> bool:
        """True when this user can pass all folders above and use the path."""
        if self.uid is None:
            return os.access(path, os.X_OK)
        tried = subprocess.run(
            ["/bin/sh", "-c", 'test -x "$1"', "sh", str(path)], check=False, **self.popen_arguments()
        )
        return tried.returncode == 0


def server_user() -> RunAs:
    """Postgres refuses to run as root: then `nobody`, which every system has."""
    if os.geteuid() != 0:
        return RunAs()
    nobody = pwd.getpwnam("nobody")
    return RunAs(nobody.pw_uid, nobody.pw_gid)


def reachable_copy(folders: list[Path], target: Path, user: RunAs) -> list[Path]:
    """The folders themselves where the user can reach them, else copies side by side below `target`."""
    if all(user.can_reach(folder) for folder in folders):
        return folders
    copies = [target / folder.name for folder in folders]
    for folder, copy in zip(folders, copies, strict=True):
        if not copy.exists():
            unfinished = copy.with_name(copy.name + ".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            shutil.copytree(folder, unfinished, symlinks=True)
            unfinished.rename(copy)
    return copies
