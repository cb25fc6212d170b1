"""The user of Postgres and Redis: the caller, or an unprivileged user if the caller is root."""

import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec

OWN_USER = "importledger"
ADMIN_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class RunAs(msgspec.Struct, frozen=True):
    """User and group of a program; None for both keeps user and group of this process."""

    uid: int | None = None
    gid: int | None = None

    def popen_arguments(self) -> dict[str, Any]:
        """Return the arguments of subprocess that start a program as this user."""
        if self.uid is None:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def create_owned(self, folder: Path) -> Path:
        """Create the folder with mode 0700, owned by this user."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.change_owner(folder)
        folder.chmod(0o700)
        return folder

    def change_owner(self, path: Path) -> None:
        """Make this user the owner of a file or folder."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)

    def change_owner_of_all(self, folder: Path) -> None:
        """Make this user the owner of a folder and its contents. Follows no links."""
        if self.uid is None or not folder.exists() or folder.stat().st_uid == self.uid:
            return
        assert self.gid is not None
        for folder_path, folders, files in os.walk(folder, topdown=False):
            for name in (*folders, *files):
                os.chown(Path(folder_path, name), self.uid, self.gid, follow_symlinks=False)
        os.chown(folder, self.uid, self.gid)  # the folder itself last, so that an interrupted start repeats all changes

    def can_reach(self, path: Path) -> bool:
        """Return True if this user may enter all parent folders of the path and use it."""
        if self.uid is None:
            return os.access(path, os.X_OK)
        result = subprocess.run(
            ["/bin/sh", "-c", 'test -x "$1"', "sh", str(path)], check=False, **self.popen_arguments()
        )
        return result.returncode == 0


def server_user() -> RunAs:
    """Return the user of the servers.

    Because Postgres refuses to run as root, the user of root's servers is `importledger`, which is created if possible,
    or else `nobody`, which other programs may also use.
    """
    if os.geteuid() != 0:
        return RunAs()
    user = _user(OWN_USER)
    if user is None:
        _make_user(OWN_USER)
        user = _user(OWN_USER) or pwd.getpwnam("nobody")
    return RunAs(user.pw_uid, user.pw_gid)


def _user(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _make_user(name: str) -> None:
    """Create a system user without home, password or shell. A failure is ignored."""
    program = shutil.which("useradd", path=ADMIN_PATH)
    if program is not None:
        options = [
            "--system",
            "--user-group",
            "--no-create-home",
            "--home-dir",
            "/nonexistent",
            "--shell",
            "/bin/false",
        ]
        subprocess.run([program, *options, name], capture_output=True, check=False, timeout=30)


def copied(folder: Path, below: Path) -> Path:
    """Return a copy of a folder below another one, for a user who cannot reach the folder. It is made once."""
    copy = below / folder.name
    if not copy.exists():
        below.mkdir(mode=0o755, parents=True, exist_ok=True)
        unfinished = copy.with_name(copy.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(folder, unfinished, symlinks=True)
        unfinished.rename(copy)
    return copy
