"""Writes of users to their books. Blocking; `projections.auxiliary.books` has the reads.

A step of a book runs with the rights of the user who has started it: the row of the step has a MAC that only the api
can make. If pushes need a second person, a push has no MAC before another user approves its files.
"""

import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, LiteralString

import msgspec
from psycopg import Connection
from psycopg.errors import LockNotAvailable

from console.books.commands import (
    ONLINE,
    RUN_NAME,
    BookRefused,
    command_of,
    is_workbook,
    known_arguments,
    refuse_name,
    refuse_size,
)
from eventstore.aggregates.owner_task import PROPOSAL_LASTS
from eventstore.clock import now
from eventstore.log.authority import AuthorityKey
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import random_key
from eventstore.log.rows import rows_of, structs_of, value_of
from eventstore.log.store_errors import is_disk_full
from projections.auxiliary.books import (
    CHUNK_BYTES,
    MAX_FILES,
    Book,
    BookFile,
    BooksFull,
    Reach,
    Step,
    StepKind,
    book_within,
    file_digest,
    list_files,
    new_id,
    preview_of,
    step_within,
    write_chunk,
)
from projections.auxiliary.step_tokens import MAY_RUN, ROLES, StepRight
from workers.proposals import are_independent

MAX_ALL_BYTES = 50_000_000_000
"""Bytes of the files of all books. Uploads beyond it are answered 503."""
MAX_ORGANISATION_BYTES = MAX_ALL_BYTES // 2
"""Bytes of the files of an organisation's books, so that others have space."""
MAX_BOOK_BYTES = 10_000_000_000
MIN_FREE_BYTES = 1 << 30
"""Free bytes that an upload leaves on the disk of a database on this machine."""
MAX_BOOKS = 100
"""Books of an organisation that are not erased."""
MAX_STEPS = 500
"""Steps of a book, whose outputs are stored."""
STEP_LASTS, OFFLINE_LASTS = timedelta(hours=24), timedelta(hours=1)
"""Time in which a step may run, from its start or resumption: one that calls the api, and one that only reads files."""
MAX_TEXT_BYTES = 1_000_000

_LOCK_BOOK = "SELECT key FROM books WHERE book = %s AND key IS NOT NULL FOR UPDATE NOWAIT"
_INSERT_BOOK = """
INSERT INTO books (book, supplier, run, organisation, user_id, key) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (organisation, supplier, run) WHERE erased_at IS NULL DO NOTHING
"""
_SELECT_BOOK = "SELECT book FROM books WHERE organisation = %s AND supplier = %s AND run = %s AND erased_at IS NULL"
_COUNT_BOOKS = "SELECT count(*) FROM books WHERE organisation = %s AND erased_at IS NULL"
_TOUCH = "UPDATE books SET touched_at = clock_timestamp() WHERE book = %s"
_HAS_LIVE = "SELECT FROM book_steps WHERE book = %s AND state IN ('waiting', 'running', 'pausing')"
_INSERT_FILE = """
INSERT INTO book_files (book, name, size, step, digest) VALUES (%s, %s, %s, %s, %s) RETURNING file
"""
_SELECT_ALL_BYTES = """
SELECT coalesce(sum(f.received), 0)::bigint, coalesce(sum(f.received) FILTER (WHERE b.organisation = %s), 0)::bigint
FROM book_files AS f JOIN books AS b USING (book)
"""
_COUNT_STEPS = "SELECT count(*) FROM book_steps WHERE book = %s"
_SELECT_UNFINISHED = """
SELECT file, size, received, digest FROM book_files WHERE book = %s AND name = %s AND NOT is_whole
"""
_DELETE_UNFINISHED = "DELETE FROM book_files WHERE book = %s AND name = %s AND NOT is_whole"
_DELETE_WHOLE = "DELETE FROM book_files WHERE book = %s AND name = %s AND is_whole"
_RECEIVE = "UPDATE book_files SET received = %s, written_at = clock_timestamp() WHERE file = %s"
_RENAME = "UPDATE book_files SET name = %s WHERE file = %s"
_FINISH = """
UPDATE book_files SET is_whole = true, size = received, digest = %s, written_at = clock_timestamp() WHERE file = %s
"""
_INSERT_STEP = """
INSERT INTO book_steps
    (step, book, kind, command, arguments, user_id, state, counts, preview, mac, holder, expires_at)
VALUES (%(step)s, %(book)s, %(kind)s, %(command)s, %(arguments)s, %(user)s, %(state)s, %(counts)s, %(preview)s,
        %(mac)s, %(user)s, %(expires_at)s)
"""
_APPROVE = """
UPDATE book_steps
SET state = 'waiting', approved_by = %(by)s, approved_at = %(at)s, approval = %(approval)s, mac = %(mac)s,
    expires_at = %(expires_at)s
WHERE step = %(step)s AND state = 'proposed'
"""
_REJECT = """
UPDATE book_steps SET state = 'failed', error = %s, ended_at = clock_timestamp(), approved_by = %s
WHERE step = %s AND state = 'proposed'
"""
_PAUSE = """
UPDATE book_steps SET state = CASE state WHEN 'waiting' THEN 'paused' ELSE 'pausing' END
WHERE step = %s AND book = %s AND state IN ('waiting', 'running')
"""
_RESUME = """
UPDATE book_steps
SET state = 'waiting', holder = %(user)s, mac = %(mac)s, expires_at = %(expires_at)s, attempt = 0, error = '',
    ended_at = NULL, exit_code = NULL
WHERE step = %(step)s AND (state = 'paused' OR state = 'failed' AND error NOT IN ('rejected', 'withdrawn'))
"""
_SELECT_APPROVAL = f"""
SELECT s.step, s.preview, s.user_id, s.approved_by, s.approved_at, s.approval
FROM book_steps AS s
JOIN books AS b USING (book)
JOIN console_user AS u ON u.user_id = s.approved_by
WHERE s.step = %s AND {MAY_RUN}
"""  # noqa: S608 - constants
_ERASE_STEPS = """
UPDATE book_steps
SET command = '', arguments = '{}', output = '', mac = '',
    state = CASE WHEN state IN ('ended', 'failed') THEN state ELSE 'failed' END,
    error = CASE WHEN state IN ('ended', 'failed') THEN error ELSE 'erased' END,
    ended_at = coalesce(ended_at, clock_timestamp())
WHERE book = %s
"""
_DELETE_FILES = "DELETE FROM book_files WHERE book = %s"
_ERASE = "UPDATE books SET key = NULL, erased_at = clock_timestamp(), erased_by = %s WHERE book = %s"

_NO_BOOK = ("The book must exist and must not be erased.", "Der Bestand muss existieren und darf nicht gelöscht sein.")
_IN_USE = (
    "Another request is changing the book. Try again.",
    "Eine andere Anfrage ändert den Bestand gerade. Versuchen Sie es erneut.",
)
_RUNS = (
    "The step of the book must end or be paused first.",
    "Der laufende Schritt des Bestands muss erst enden oder angehalten werden.",
)


class WrongOffset(BookRefused):
    """The upload must go on at `received`."""

    def __init__(self, received: int) -> None:
        super().__init__(
            f"The upload must go on at byte {received}.", f"Das Hochladen muss bei Byte {received} weitergehen."
        )
        self.received = received


class _Approved(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a step that an approval covers."""

    step: str
    preview: str
    user_id: str
    approved_by: str
    approved_at: datetime | None
    approval: str


class Books:
    """Writes of users to the books within their reach. `four_eyes` are the actions that need a second person."""

    def __init__(self, ledger: Ledger, authority: AuthorityKey, *, four_eyes: Collection[str] = ()) -> None:
        self._ledger = ledger
        self._authority = authority
        self._needs_second = "push" in four_eyes

    def create(self, reach: Reach, supplier: str, run: str) -> str:
        """Create a book, and return its id; the existing one for the same supplier and run."""
        if not RUN_NAME.match(run):
            raise BookRefused(
                "A run must have 1 to 48 letters, digits, full stops, underscores and hyphens, and must begin with a "
                "letter or digit.",
                "Ein Lauf muss aus 1 bis 48 Buchstaben, Ziffern, Punkten, Unterstrichen und Bindestrichen bestehen und "
                "mit Buchstabe oder Ziffer beginnen.",
            )
        if reach.suppliers is not None and supplier not in reach.suppliers:
            raise BookRefused(*_NO_BOOK)
        with self._ledger.connection() as connection:
            if value_of(connection, _COUNT_BOOKS, reach.organisation) >= MAX_BOOKS:
                raise BookRefused(
                    f"An organisation must have at most {MAX_BOOKS} books: erase one first.",
                    f"Eine Organisation darf höchstens {MAX_BOOKS} Bestände haben. Löschen Sie erst einen.",
                )
            row = (new_id("b"), supplier, run, reach.organisation, reach.user_id, random_key())
            connection.execute(_INSERT_BOOK, row)
            return str(value_of(connection, _SELECT_BOOK, reach.organisation, supplier, run))

    def begin(
        self,
        reach: Reach,
        book: str,
        name: str,
        size: int,
        *,
        version: str = "",
        offset: int = 0,
        is_new: bool = False,
    ) -> int:
        """Begin or continue the upload of a file, and return the offset of its next byte. Raises BooksFull.

        An unfinished upload is continued if it has the same name, size and version, which is any text of the client.
        With `is_new`, it is not continued. Only an upload at offset 0 replaces another unfinished upload of this name,
        so that two uploads do not replace each other in turns.
        """
        refuse_name(name)
        refuse_size(size)
        with self._changing(reach, book) as (connection, found, _):
            unfinished = rows_of(connection, _SELECT_UNFINISHED, book, name)
            if unfinished and (unfinished[0][1], unfinished[0][3]) == (size, version) and not is_new:
                return int(unfinished[0][2])
            if unfinished and offset:
                raise BookRefused(
                    "Another file of this name is being uploaded to the book. Upload one of the two files.",
                    "In den Bestand wird eine andere Datei dieses Namens hochgeladen. Laden Sie eine der beiden hoch.",
                )
            refuse_full(connection, found.organisation, size)
            if found.bytes + size > MAX_BOOK_BYTES or len(list_files(connection, book)) >= MAX_FILES:
                raise BookRefused(
                    f"A book must have at most {MAX_FILES} files and 10 GB.",
                    f"Ein Bestand darf höchstens {MAX_FILES} Dateien und 10 GB haben.",
                )
            _delete(connection, _DELETE_UNFINISHED, book, name)
            connection.execute(_INSERT_FILE, (book, name, size, "", version))
            return 0

    def add(self, reach: Reach, book: str, name: str, offset: int, piece: bytes, *, is_last: bool = False) -> int:
        """Store a piece of an upload, and return the offset after it. Raises WrongOffset, BooksFull.

        A piece has whole chunks, unless it is the last: it then reaches the size, or `is_last` is True.
        """
        with self._changing(reach, book) as (connection, found, key):
            unfinished = rows_of(connection, _SELECT_UNFINISHED, book, name)
            if not unfinished:
                raise WrongOffset(0)
            [(file, size, received, _)] = unfinished
            end = offset + len(piece)
            is_end = is_last or end == size
            if offset != received or end > size or (len(piece) % CHUNK_BYTES and not is_end):
                raise WrongOffset(received)
            if found.bytes + len(piece) > MAX_BOOK_BYTES:
                raise BookRefused("A book must have at most 10 GB.", "Ein Bestand darf höchstens 10 GB haben.")
            refuse_full(connection, found.organisation, len(piece))
            for first in range(0, len(piece), CHUNK_BYTES):
                number = (offset + first) // CHUNK_BYTES
                write_chunk(connection, key, file, number, piece[first : first + CHUNK_BYTES])
            connection.execute(_RECEIVE, (end, file))
            return end

    def finish(self, reach: Reach, book: str, name: str, *, is_stream: bool = False, as_name: str = "") -> None:
        """Make an upload a file of the book, named `as_name` [default: `name`], instead of the file of this name.

        `is_stream`: the size of the upload was unknown.
        """
        with self._changing(reach, book) as (connection, _, _key):
            unfinished = rows_of(connection, _SELECT_UNFINISHED, book, name)
            if not unfinished:
                raise WrongOffset(0)
            [(file, size, received, _)] = unfinished
            if received != size and not is_stream:
                raise WrongOffset(received)
            if as_name not in ("", name):
                connection.execute(_RENAME, (as_name, file))
            finish_file(connection, book, as_name or name, file)

    def write_text(self, reach: Reach, book: str, name: str, text: str) -> None:
        """Write a small file, such as a mapping."""
        data = text.encode()
        if len(data) > MAX_TEXT_BYTES:
            raise BookRefused("A text must have at most 1 MB.", "Ein Text darf höchstens 1 MB haben.")
        self.begin(reach, book, name, len(data), is_new=True)
        if data:
            self.add(reach, book, name, 0, data, is_last=True)
        self.finish(reach, book, name)

    def delete_file(self, reach: Reach, book: str, name: str) -> None:
        """Delete a file, and an unfinished upload of its name."""
        with self._changing(reach, book) as (connection, _, _key):
            remove_file(connection, book, name)

    def start(self, reach: Reach, book: str, kind: StepKind, arguments: Mapping[str, str]) -> str:
        """Start a step, and return its id. A push that needs a second person is only proposed."""
        with self._changing(reach, book) as (connection, found, _):
            files = [file for file in list_files(connection, book) if file.is_whole]
            if value_of(connection, _COUNT_STEPS, book) >= MAX_STEPS:
                raise BookRefused(
                    f"A book must have at most {MAX_STEPS} steps. Erase the book, and create another one.",
                    f"Ein Bestand darf höchstens {MAX_STEPS} Schritte haben. Löschen Sie ihn und legen Sie einen "
                    "anderen an.",
                )
            known = known_arguments(kind, arguments, [file.name for file in files])
            step, command = new_id("s"), command_of(kind, found.supplier, found.run, known)
            is_proposal = kind == "push" and self._needs_second
            packed = msgspec.json.encode(known).decode()
            right = self._right(step, kind, packed, found, reach.user_id)
            row = {
                "step": step,
                "book": book,
                "kind": kind,
                "command": command,
                "arguments": packed,
                "user": reach.user_id,
                "state": "proposed" if is_proposal else "waiting",
                "counts": msgspec.json.encode(_counts(files)).decode(),
                "preview": preview_of(files, step, command) if is_proposal else "",
                "mac": "" if is_proposal else right.mac,
                "expires_at": right.expires_at,
            }
            connection.execute(_INSERT_STEP, row)
            return step

    def approve(self, reach: Reach, book: str, step: str) -> None:
        """Approve a proposed push as the second person. Raises BookRefused."""
        with self._changing(reach, book) as (connection, found, _):
            proposed = self._proposed(connection, book, step)
            if not are_independent(self._ledger, proposed.user_id, reach.user_id):
                raise BookRefused(
                    "Another person must approve the step: one user could have acted as both.",
                    "Eine andere Person muss den Schritt genehmigen: Ein Benutzer könnte als beide gehandelt haben.",
                )
            at = now()
            if at >= proposed.requested_at + PROPOSAL_LASTS:
                raise BookRefused(
                    "The proposal ended after 72 hours. Start the step again.",
                    "Der Vorschlag ist nach 72 Stunden abgelaufen. Starten Sie den Schritt erneut.",
                )
            if preview_of(list_files(connection, book), step, proposed.command) != proposed.preview:
                raise BookRefused(
                    "The files have changed since the proposal. Start the step again.",
                    "Die Dateien haben sich seit dem Vorschlag geändert. Starten Sie den Schritt erneut.",
                )
            right = self._right(step, "push", _packed(proposed), found, proposed.user_id)
            approval = self._authority.mac(*_approval(proposed, reach.user_id, at))
            row = {"step": step, "by": reach.user_id, "at": at, "approval": approval}
            connection.execute(_APPROVE, row | {"mac": right.mac, "expires_at": right.expires_at})

    def reject(self, reach: Reach, book: str, step: str) -> None:
        """Reject a proposed push, or withdraw the own one."""
        with self._changing(reach, book) as (connection, _, _key):
            proposed = self._proposed(connection, book, step)
            is_own = proposed.user_id == reach.user_id
            connection.execute(_REJECT, ("withdrawn" if is_own else "rejected", reach.user_id, step))

    def pause(self, reach: Reach, book: str, step: str) -> None:
        """Pause a step. A running step stops within seconds."""
        with self._changing(reach, book, is_live=True) as (connection, _, _key):
            connection.execute(_PAUSE, (step, book))

    def resume(self, reach: Reach, book: str, step: str) -> None:
        """Run a paused or failed step again, with the rights of this user."""
        with self._changing(reach, book) as (connection, found, _):
            former = step_within(connection, book, step)
            if former is None or former.state not in ("paused", "failed"):
                raise BookRefused("The step must be paused.", "Der Schritt muss angehalten sein.")
            if (
                former.kind == "push"
                and self._needs_second
                and not is_approved(connection, self._ledger, self._authority, step)
            ):
                raise BookRefused(
                    "A second person must approve the step. Start it again.",
                    "Eine zweite Person muss den Schritt genehmigen. Starten Sie ihn erneut.",
                )
            right = self._right(step, former.kind, _packed(former), found, reach.user_id)
            row = {"step": step, "user": reach.user_id, "mac": right.mac, "expires_at": right.expires_at}
            connection.execute(_RESUME, row)

    def erase(self, reach: Reach, book: str) -> None:
        """Delete the files and the key of a book at once. A step that runs is ended. Rows remain for auditors."""
        with self._changing(reach, book, is_live=True) as (connection, _, _key):
            erase_book(connection, book, reach.user_id)

    @contextmanager
    def _changing(
        self, reach: Reach, book: str, *, is_live: bool = False
    ) -> Iterator[tuple[Connection[Any], Book, bytes]]:
        """Yield a transaction that holds the book's lock, the book and its key.

        Raises BookRefused if the book is not within the reach, or if a step of it runs and `is_live` is False.
        """
        with self._ledger.connection() as connection, connection.transaction():
            try:
                locked = rows_of(connection, _LOCK_BOOK, book)
            except LockNotAvailable:  # waiting would hold a thread and a connection of the api
                raise BookRefused(*_IN_USE) from None
            found = book_within(connection, reach, book)
            if not locked or found is None:
                raise BookRefused(*_NO_BOOK)
            if not is_live and connection.execute(_HAS_LIVE, (book,)).rowcount:
                raise BookRefused(*_RUNS)
            yield connection, found, bytes(locked[0][0])
            connection.execute(_TOUCH, (book,))

    def _right(self, step: str, kind: str, arguments: str, book: Book, user: str) -> StepRight:
        """Return the right of a step with its MAC, from now on."""
        right = StepRight(
            step=step,
            kind=kind,
            arguments=arguments,
            book=book.book,
            supplier=book.supplier,
            organisation=book.organisation,
            holder=user,
            expires_at=(now() + (STEP_LASTS if kind in ONLINE else OFFLINE_LASTS)).replace(microsecond=0),
        )
        return msgspec.structs.replace(right, mac=right.made(self._authority))

    def _proposed(self, connection: Connection[Any], book: str, step: str) -> Step:
        found = step_within(connection, book, step)
        if found is None or found.state != "proposed":
            raise BookRefused("The step was decided already.", "Über den Schritt wurde schon entschieden.")
        return found


def is_approved(connection: Connection[Any], ledger: Ledger, authority: AuthorityKey, step: str) -> bool:
    """Return True if a second person has approved the step, who may still run it. `authority` has made the approval."""
    return any(
        bool(approved.preview and approved.approved_at)
        and authority.is_mac(approved.approval, *_approval(approved, approved.approved_by, approved.approved_at))
        and are_independent(ledger, approved.user_id, approved.approved_by)
        for approved in structs_of(connection, _Approved, _SELECT_APPROVAL, step, [*ROLES])
    )


def refuse_full(connection: Connection[Any], organisation: str, more: int) -> None:
    """Raise BooksFull unless this many bytes fit: into the limits of books, and on a disk of this machine."""
    [(of_all, own)] = rows_of(connection, _SELECT_ALL_BYTES, organisation)
    if is_disk_full() or of_all + more > MAX_ALL_BYTES or own + more > MAX_ORGANISATION_BYTES:
        raise BooksFull
    host = connection.info.host
    if host.startswith("/") and shutil.disk_usage(host).free < MIN_FREE_BYTES + 2 * more:  # twice: Postgres' log
        raise BooksFull


def finish_file(connection: Connection[Any], book: str, name: str, file: int) -> None:
    """Make a received file whole. It replaces the file of its name."""
    _delete(connection, _DELETE_WHOLE, book, name)
    connection.execute(_FINISH, (file_digest(connection, file), file))


def new_file(connection: Connection[Any], book: str, name: str, size: int, step: str) -> int:
    """Begin a file that a step has written, and return its number."""
    _delete(connection, _DELETE_UNFINISHED, book, name)
    return int(value_of(connection, _INSERT_FILE, book, name, size, step, ""))


def remove_file(connection: Connection[Any], book: str, name: str) -> None:
    """Delete a file, and an unfinished upload of its name."""
    _delete(connection, _DELETE_UNFINISHED, book, name)
    _delete(connection, _DELETE_WHOLE, book, name)


def receive(connection: Connection[Any], file: int, received: int) -> None:
    connection.execute(_RECEIVE, (received, file))


def erase_book(connection: Connection[Any], book: str, by: str) -> None:
    """Delete the files and the key of a book, with its commands and outputs. The caller has a transaction."""
    connection.execute(_ERASE_STEPS, (book,))
    _delete(connection, _DELETE_FILES, book)
    connection.execute(_ERASE, (by, book))


def _delete(connection: Connection[Any], statement: LiteralString, *values: str) -> None:
    """Delete files without a time limit: the chunks of a large book take longer than other statements may.

    The caller has a transaction.
    """
    connection.execute("SET LOCAL statement_timeout = 0")
    connection.execute(statement, values)


def name_of_upload(name: str, files: Collection[str]) -> str:
    """Return the name of an uploaded file. A workbook of failures becomes the next correction of the book, so that the
    workbook of the next errors does not replace it.
    """
    if not is_workbook(name) or name.startswith("corrected-"):
        return name
    number = 1
    while f"corrected-{number}.failures.xlsx" in files:
        number += 1
    return f"corrected-{number}.failures.xlsx"


def in_order_of_upload(corrections: Iterable[str]) -> list[str]:
    """Return names of corrections by their numbers: of two corrections of an account, importbook uses the last."""
    return sorted(corrections, key=lambda name: (len(name), name))


def _counts(files: Collection[BookFile]) -> dict[str, int]:
    shown = [file for file in files if not file.name.startswith(".")]
    return {"files": len(shown), "bytes": sum(file.size for file in shown)}


def _packed(step: Step) -> str:
    """Return the arguments of a step as its row has them."""
    return msgspec.json.encode(step.arguments).decode()


def _approval(
    step: "Step | _Approved", approver: str, at: datetime | None
) -> tuple[str, str, str, str, str, datetime | None]:
    return "book approval", step.step, step.preview, step.user_id, approver, at
