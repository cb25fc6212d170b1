"""A Postgres that was made and migrated once for all processes of a run: services of tests start on copies of it.

Making one takes longer than the rest of a service's start. Tests that start a service without `start_service`, the
demonstration and the commands of the documents, show that a service makes its own.
"""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Identifier, Literal

from embedded.folder import DataFolder
from embedded.service import Service
from tests.support.folders import new_folder

SHARED = "TESTS_SHARED_FOLDER"
"""Variable with the folder that the processes of a run share. The first process sets it."""
PARTS = ("postgres", "secrets/postgres_admin", "secrets/postgres_service")


def begin_sharing() -> Path | None:
    """Make the shared folder if there is none yet, and return it. The caller removes it."""
    if SHARED in os.environ:
        return None
    folder = new_folder("importledger-tests-")
    os.environ[SHARED] = str(folder)
    return folder


def end_sharing(folder: Path) -> None:
    del os.environ[SHARED]
    shutil.rmtree(folder, ignore_errors=True)


def prepare(folder: Path) -> None:
    """Put a Postgres with the newest schema into this data folder, as a stopped service leaves it.

    An existing one is kept. Without a shared folder (`make chaos`) the service makes its own.
    """
    if SHARED not in os.environ or (folder / "postgres").exists():
        return
    (folder / "secrets").mkdir(mode=0o700, exist_ok=True)
    for part in PARTS:
        subprocess.run(["cp", "-a", str(_made() / part), str(folder / part)], check=True)


def _made() -> Path:
    """Return the Postgres that is copied. The first process makes it, and the others wait."""
    shared = Path(os.environ[SHARED])
    made = shared / "made"
    with (shared / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            service = Service(DataFolder(shared / "unfinished"))
            try:
                connections = service.start_servers(None, None, "redis://unused")
                _check_passwords_soon(connections.admin_url, connections.database_url)
            finally:
                service.stop()
            (shared / "unfinished").rename(made)
    return made


def _check_passwords_soon(*urls: str) -> None:
    """Let this Postgres hash a password once, where it does so 4,096 times: it took most of each connection's time.

    That slows guessing down, and here nobody guesses.
    """
    with psycopg.connect(urls[0], autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET scram_iterations = 1")  # for passwords that are set by later starts
        connection.execute("SET scram_iterations = 1")
        for url in urls:
            parts = conninfo_to_dict(url)
            role, password = Identifier(str(parts["user"])), Literal(str(parts["password"]))
            connection.execute(SQL("ALTER ROLE {} PASSWORD {}").format(role, password))
