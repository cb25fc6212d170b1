"""Push a book while client, api, worker and Postgres are killed. Finally every account exists once.

`python -m lab.faults.book --accounts 3000 --kills 10 --seed 1` prints what it kills. Its exit code is that of
`reconcile`: 0 for BALANCED. It takes minutes, and is not part of the tests.
"""

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

HERE = Path(sys.executable).parent
VICTIMS = ("client", "api", "worker", "postgres")
UP_WITHIN_S = 120.0


class Tree:
    """A service of its own: a process tree that restarts its parts."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        words = [str(HERE / "importledger"), "up", "--port", str(self.port), "--data-dir", str(folder / "data")]
        with (folder / "service.log").open("wb") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
        ends = time.monotonic() + UP_WITHIN_S
        while time.monotonic() < ends and not self._listens():
            time.sleep(0.2)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self, role: str) -> str:
        """Kill a process of this role, and return its role and process id. Waits while there is none."""
        ends = time.monotonic() + UP_WITHIN_S
        while not (killed := self._killed(role)):
            assert time.monotonic() < ends, f"no {role} runs"
            time.sleep(0.1)
        return killed

    def _killed(self, role: str) -> str:
        for process in psutil.Process(self.process.pid).children(recursive=True):
            try:
                words, parent = process.cmdline(), process.parent()
                is_helper = "--multiprocessing-fork" in words
                is_postmaster = "postgres" in process.name() and parent is not None and "postgres" not in parent.name()
                if is_postmaster if role == "postgres" else role in words and not is_helper:
                    process.kill()
                    return f"{role} {process.pid}"
            except psutil.NoSuchProcess:
                continue
        return ""

    def close(self) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.faults.book")
    parser.add_argument("--accounts", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="importledger-kills-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # if this runs as root, the servers run as another user
        tree = Tree(folder)
        try:
            sys.exit(_pushed_and_killed(tree, folder, arguments.accounts, arguments.kills, chance))
        finally:
            tree.close()


def _pushed_and_killed(tree: Tree, folder: Path, accounts: int, kills: int, chance: random.Random) -> int:
    access = _access(tree, folder)

    def importbook(*words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([HERE / "importbook", *words], cwd=folder, env=access, stdout=None, stderr=None)

    with (folder / "book.ndjson").open("wb") as book:
        words = [str(HERE / "importbook"), "generate", "--accounts", str(accounts), "--supplier", "NORDWIND"]
        subprocess.run(words, check=True, stdout=book)
    push = ("push", "book.ndjson", "--run", "kills")
    for number in range(1, kills + 1):
        client = importbook(*push)
        time.sleep(chance.uniform(1.0, 4.0))
        victim = chance.choice(VICTIMS)
        assert client.poll() is None, "the push has ended before a kill: it needs more accounts"
        if victim == "client":
            client.kill()
            killed = f"client {client.pid}"
        else:
            killed = tree.kill(victim)
        print(f"{number}: killed {killed}", flush=True)
        time.sleep(chance.uniform(0.5, 2.0))
        client.kill()
        client.wait()
    code = importbook(*push, "--wait").wait()
    importbook("manifest", "book.ndjson", "-o", "m.json").wait()
    return importbook("reconcile", "kills", "--manifest", "m.json").wait() or code


def _access(tree: Tree, folder: Path) -> dict[str, str]:
    """Create a supplier and a key, and return the environment of an importer who has the key."""
    environment = dict(os.environ) | {"IMPORTLEDGER_DATA_DIR": str(folder / "data"), "IMPORTLEDGER_URL": tree.url}
    operate = str(HERE / "importledger")
    subprocess.run([operate, "supplier", "create", "NORDWIND"], check=True, env=environment)
    words = [operate, "key", "create", "Kills", "--supplier", "NORDWIND"]
    key = subprocess.run(words, check=True, env=environment, capture_output=True, text=True).stdout.split()[-1]
    return environment | {"IMPORTLEDGER_KEY": key}


if __name__ == "__main__":
    main()
