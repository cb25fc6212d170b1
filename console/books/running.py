"""Runs the steps of books: each is importbook, as a child process in a private folder that is deleted afterwards.

The steps run in the api, which alone can make their tokens, and call it at its own address. The child has no settings
of the service: its environment is a few variables. If an api process ends, another one repeats its step. Output is
stored encrypted, and is never logged.
"""

import fcntl
import os
import re
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import structlog
from cryptography.exceptions import InvalidTag
from psycopg import Connection

from console.books.commands import MAPPING, NOTES, ONLINE, percent_in, words_of
from console.books.writing import (
    MAX_BOOK_BYTES,
    MIN_FREE_BYTES,
    erase_book,
    finish_file,
    is_approved,
    new_file,
    receive,
    refuse_full,
    remove_file,
)
from eventstore.errors import StoreUnavailable
from eventstore.log import locks
from eventstore.log.authority import AuthorityKey
from eventstore.log.ledger import Ledger
from eventstore.log.rows import rows_of, structs_of
from projections.auxiliary.books import (
    CHUNK_BYTES,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_HEAD_BYTES,
    MAX_TAIL_BYTES,
    RETENTION,
    BooksFull,
    StepKind,
    list_files,
    preview_of,
    read_chunks,
    sealed,
    write_chunk,
)
from projections.auxiliary.step_tokens import StepRight
from telemetry.supervision import supervision

NAME = "steps of books"
EVERY_S, BEAT_S, KILL_AFTER_S = 1.0, 1.0, 10.0
LEASE = "30 seconds"
"""Time after the last sign of life of a process, after which another one takes its step."""
MAX_ATTEMPTS = 5
MAX_FOLDER_BYTES = 18_000_000_000
"""Size of a step's folder, below the size of the volume in deploy/kubernetes/api.yaml. Larger steps are stopped."""
PREFIX = "importledger-book-"
_LOOPBACK = re.compile(r"http://(127\.0\.0\.1|\[::1\]|localhost)[:/]")

_CLAIM = f"""
UPDATE book_steps AS s
SET runner = %(runner)s, attempt = attempt + 1, lease_until = clock_timestamp() + interval '{LEASE}',
    state = CASE s.state WHEN 'waiting' THEN 'running' ELSE s.state END,
    started_at = coalesce(started_at, clock_timestamp())
FROM books AS b
WHERE b.book = s.book AND b.key IS NOT NULL AND s.step = (
    SELECT step FROM book_steps JOIN books AS o USING (book)
    WHERE (state = 'waiting' OR state IN ('running', 'pausing') AND lease_until < clock_timestamp())
      AND NOT EXISTS (
        SELECT FROM book_steps AS r JOIN books AS p USING (book)
        WHERE p.organisation = o.organisation AND r.state IN ('running', 'pausing')
          AND r.lease_until >= clock_timestamp())
    ORDER BY number LIMIT 1 FOR UPDATE OF book_steps SKIP LOCKED)
RETURNING s.step, s.book, b.supplier, b.organisation, b.run, b.key, s.kind, s.command, s.arguments, s.state,
    s.preview, s.mac, s.holder, s.expires_at, s.attempt, s.expires_at > clock_timestamp() AS is_timely
"""  # noqa: S608 - a constant
_BEAT = f"""
UPDATE book_steps SET lease_until = clock_timestamp() + interval '{LEASE}', percent = %s, output = %s
WHERE step = %s AND runner = %s AND state IN ('running', 'pausing') AND expires_at > clock_timestamp()
RETURNING state
"""  # noqa: S608 - a constant
_END = """
UPDATE book_steps
SET state = %(state)s, error = %(error)s, exit_code = %(code)s, output = %(output)s, percent = %(percent)s, runner = 0,
    attempt = CASE WHEN %(state)s = 'waiting' THEN attempt - 1 ELSE attempt END,
    ended_at = CASE WHEN %(state)s IN ('ended', 'failed') THEN clock_timestamp() END
WHERE step = %(step)s AND runner = %(runner)s AND state IN ('running', 'pausing')
"""
_LOCK_OLD = """
SELECT book FROM books AS b
WHERE key IS NOT NULL AND touched_at < clock_timestamp() - %s AND NOT EXISTS (
    SELECT FROM book_steps AS s WHERE s.book = b.book AND s.state IN ('waiting', 'running', 'pausing'))
LIMIT 1 FOR UPDATE SKIP LOCKED
"""
_IS_OWN = "SELECT FROM book_steps WHERE step = %s AND runner = %s AND state IN ('running', 'pausing')"
_TOUCH = "UPDATE books SET touched_at = clock_timestamp() WHERE book = %s"

logger = structlog.get_logger()


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """A step that this process runs."""

    step: str
    book: str
    supplier: str
    organisation: str
    run: str
    key: bytes
    kind: StepKind
    command: str
    arguments: str
    state: str
    preview: str
    mac: str
    holder: str
    expires_at: datetime
    attempt: int
    is_timely: bool

    @property
    def right(self) -> StepRight:
        return StepRight(**{name: getattr(self, name) for name in StepRight.__struct_fields__})

    @property
    def given(self) -> dict[str, str]:
        return msgspec.json.decode(self.arguments, type=dict[str, str])


class StepFailed(Exception):
    """The step cannot run; the argument is a key of `STEP_ERRORS`."""


class Output:
    """Beginning and end of a child's output. The output between them is dropped."""

    def __init__(self) -> None:
        self.head, self.tail = b"", b""
        self.percent: int | None = None

    def add(self, data: bytes) -> None:
        room = MAX_HEAD_BYTES - len(self.head)
        self.head += data[:room]
        self.tail = (self.tail + data[room:])[-MAX_TAIL_BYTES:]
        for line in data.decode(errors="replace").splitlines():
            found = percent_in(line)
            self.percent = self.percent if found is None else found

    def text(self) -> bytes:
        return self.head + self.tail


class BookSteps:
    """Runs one step at a time. `url` is the address of this api process on its own machine."""

    def __init__(self, ledger: Ledger, authority: AuthorityKey, *, url: str, needs_second: bool = False) -> None:
        self._ledger, self._authority, self._url, self._needs_second = ledger, authority, url, needs_second
        self._stop = threading.Event()
        self._runner = secrets.randbelow(2**31 - 1) + 1
        self._beat_at = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run steps in a thread. At the end, a step that runs is left to another process."""
        thread = supervision.thread(NAME, self._work, self._stop)
        try:
            yield
        finally:
            self.stop()
            thread.join(KILL_AFTER_S)

    def stop(self) -> None:
        """Stop a running step, and start no other."""
        self._stop.set()

    def _work(self) -> None:
        sweep()
        while not self._stop.wait(EVERY_S):
            try:
                while not self._stop.is_set() and self.run_next():
                    pass
                self.erase_old()
                supervision.works(NAME)
            except StoreUnavailable as error:
                supervision.failed(NAME, error, is_waiting=True)

    def erase_old(self) -> None:
        """Erase books without a change or step for RETENTION."""
        with self._ledger.connection() as connection:
            while self._erase_next(connection):
                pass

    def _erase_next(self, connection: Connection[Any]) -> bool:
        """Erase an old book, under the lock that its users take; return False if there is none."""
        with connection.transaction():
            old = rows_of(connection, _LOCK_OLD, RETENTION)
            for (book,) in old:
                erase_book(connection, book, "")
        return bool(old)

    def run_next(self) -> bool:
        """Run the next step that waits; return False if none does."""
        with self._ledger.connection() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (locks.BOOK_STEPS,))
            claimed = structs_of(connection, Claimed, _CLAIM, runner=self._runner)
        if not claimed:
            return False
        [step] = claimed
        output, code, state, error = Output(), None, "failed", ""
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = os.open(folder, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            self._fill(step, folder, output)
            before = _state_of(folder)
            code, state = self._run(step, folder, output)
            self._store(step, folder, output, before)
            error = ("killed" if code < 0 else "refused") if state == "failed" else ""
        except StepFailed as failed:
            state, error = ("paused", "") if str(failed) == "paused" else ("failed", str(failed))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
        row = {"step": step.step, "runner": self._runner, "state": state, "error": error, "code": code}
        row |= {"output": sealed(step.key, step.step, output.text()), "percent": output.percent}
        with self._ledger.connection() as connection:
            connection.execute(_END, row)
            connection.execute(_TOUCH, (step.book,))
        logger.info("step of a book ended", step=step.step, kind=step.kind, state=state, exit_code=code)
        return True

    def _fill(self, step: Claimed, folder: Path, output: Output) -> None:
        """Write the files of the book into the folder. Raises StepFailed."""
        if step.state == "pausing":
            raise StepFailed("paused")
        if not step.right.is_valid(self._authority):
            raise StepFailed("forged")
        if step.attempt > MAX_ATTEMPTS or not step.is_timely:
            raise StepFailed("lost" if step.is_timely else "expired")
        with self._ledger.connection() as connection:
            is_proposal = step.kind == "push" and self._needs_second
            if is_proposal and not is_approved(connection, self._ledger, self._authority, step.step):
                raise StepFailed("not_approved")
            files = [file for file in list_files(connection, step.book) if file.is_whole]
            if step.preview and preview_of(files, step.step, step.command) != step.preview:
                raise StepFailed("changed")
            if shutil.disk_usage(folder).free < MIN_FREE_BYTES + 2 * sum(file.size for file in files):
                raise StepFailed("no_space")
            (folder / NOTES).mkdir()
            try:
                for file in files:
                    with (folder / file.name).open("xb") as written:
                        for chunk in read_chunks(connection, step.key, file):
                            written.write(chunk)
                            self._renew(step, output)
            except (ValueError, InvalidTag):
                raise StepFailed("unreadable") from None

    def _run(self, step: Claimed, folder: Path, output: Output) -> tuple[int, str]:
        """Run the command in the folder, and return its exit code and the state of the step."""
        words = words_of(step.kind, step.supplier, step.run, step.given)
        if step.kind in ONLINE and not _LOOPBACK.match(self._url):
            words.append("--insecure-http")  # an address of this machine: the token does not leave the machine
        proposal = folder / f"{MAPPING}.new"
        with proposal.open("wb") as proposed:
            child = subprocess.Popen(
                [sys.executable, "-I", "-m", "console.books.child", *words],
                cwd=folder,
                env=environment(folder, self._url, step.right.token(self._authority), step.given.get("language", "en")),
                stdin=subprocess.DEVNULL,
                stdout=proposed if step.kind == "init" else subprocess.PIPE,
                stderr=subprocess.PIPE if step.kind == "init" else subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            state = self._watch(step, folder, child, output)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            code = child.wait()
            for pipe in (child.stdout, child.stderr):
                if pipe is not None:
                    pipe.close()
        if step.kind == "init" and code == 0:
            proposal.replace(folder / MAPPING)
        proposal.unlink(missing_ok=True)
        if code in (0, 1):
            return code, "ended"
        return code, state

    def _watch(self, step: Claimed, folder: Path, child: "subprocess.Popen[bytes]", output: Output) -> str:
        """Read the output until the child has ended; return the state of the step if it has not succeeded.

        Raises StepFailed if the step has lasted too long, or the disk has no more space for others.
        """
        pipe = child.stderr if step.kind == "init" else child.stdout
        assert pipe is not None
        state, beat_at, kill_at, is_open = "failed", 0.0, float("inf"), True
        output_of_child = select.poll()  # not select(): an api process may have thousands of connections
        output_of_child.register(pipe, select.POLLIN)
        while is_open or child.poll() is None:
            if is_open and output_of_child.poll(250):
                data = os.read(pipe.fileno(), 65536)
                output.add(data)
                is_open = bool(data)
            elif child.poll() is not None:
                break
            now = time.monotonic()
            if now >= beat_at:
                beat_at = now + BEAT_S
                wanted = self._beat(step, output)
                if not wanted:
                    child.kill()
                    raise StepFailed("expired")
                if self._stop.is_set() or wanted != "running":
                    state = "paused" if wanted == "pausing" else "waiting"
                    child.terminate()
                    kill_at = min(kill_at, now + KILL_AFTER_S)
                if error := _space_error(folder):
                    child.kill()
                    raise StepFailed(error)
            if now >= kill_at:
                child.kill()
        return state

    def _beat(self, step: Claimed, output: Output) -> str:
        """Store the progress, and return the state that the step has now; "" if it was erased or has expired."""
        content = sealed(step.key, step.step, output.text())
        with self._ledger.connection() as connection:
            rows = rows_of(connection, _BEAT, output.percent, content, step.step, self._runner)
        self._beat_at = time.monotonic() + BEAT_S
        return str(rows[0][0]) if rows else ""

    def _renew(self, step: Claimed, output: Output) -> None:
        """Renew the lease once a second while large files are copied. Raises StepFailed."""
        if time.monotonic() >= self._beat_at and not self._beat(step, output):
            raise StepFailed("expired")

    def _store(self, step: Claimed, folder: Path, output: Output, before: dict[str, tuple[int, int]]) -> None:
        """Store new and changed files in the book, and remove those that the step has deleted. Raises StepFailed."""
        after = _state_of(folder)
        if len(after) > 2 * MAX_FILES:
            raise StepFailed("too_large")
        with self._ledger.connection() as connection, connection.transaction():
            if not rows_of(connection, "SELECT FROM books WHERE book = %s AND key IS NOT NULL FOR UPDATE", step.book):
                raise StepFailed("erased")
            if not rows_of(connection, _IS_OWN, step.step, self._runner):  # another process has taken the step
                raise StepFailed("lost")
            changed = sum(size for name, (size, _) in after.items() if before.get(name) != after[name])
            if sum(size for size, _ in after.values()) > MAX_BOOK_BYTES:
                raise StepFailed("too_large")
            try:
                refuse_full(connection, step.organisation, changed)
            except BooksFull:
                raise StepFailed("no_space") from None
            for name in before.keys() - after.keys():
                remove_file(connection, step.book, name)
            for name, state in after.items():
                if before.get(name) != state:
                    self._store_file(connection, step, output, folder / name, name)

    def _store_file(self, connection: Connection[Any], step: Claimed, output: Output, path: Path, name: str) -> None:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES or len(name.encode()) > 200:
            raise StepFailed("too_large")
        file, received = new_file(connection, step.book, name, size, step.step), 0
        with path.open("rb") as opened:
            while chunk := opened.read(CHUNK_BYTES):
                write_chunk(connection, step.key, file, received // CHUNK_BYTES, chunk)
                received += len(chunk)
                self._renew(step, output)
        receive(connection, file, received)
        finish_file(connection, step.book, name, file)


def _state_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of the regular files in the folder, and of importbook's notes, by name."""
    paths = [*folder.iterdir(), *(folder / NOTES).iterdir()]
    files = [path for path in paths if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def _space_error(folder: Path) -> str:
    """Return the reason to stop a step whose folder is too large, or whose disk is nearly full; "" for no reason."""
    if shutil.disk_usage(folder).free < MIN_FREE_BYTES:
        return "no_space"
    size = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # the child deletes files at the same time
            size += path.lstat().st_size
    return "too_large" if size > MAX_FOLDER_BYTES else ""


def environment(folder: Path, url: str, token: str, language: str) -> dict[str, str]:
    """Return all variables of a child. It inherits none, since those of the api hold passwords."""
    return {
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "PATH": os.defpath,
        "LANG": "de_DE.UTF-8" if language == "de" else "C.UTF-8",
        "PYTHONUTF8": "1",
        "IMPORTLEDGER_URL": url,
        "IMPORTLEDGER_KEY": token,
    }


def sweep() -> None:
    """Delete folders of steps whose process has ended."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
