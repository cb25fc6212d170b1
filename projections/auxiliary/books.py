"""Books of importers: their files, encrypted, and the steps that were run on them. Outside of the log.

A file is stored in chunks of CHUNK_BYTES. Each chunk is compressed, and encrypted with the key of its book, which an
erasure deletes. Rows of books and steps remain for auditors: they hold no contents and no names of files.
"""

import hashlib
import hmac
import os
import secrets
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec
import zstandard
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from psycopg import AsyncConnection, Connection

from eventstore.errors import StoreUnavailable
from eventstore.log.rows import fetch_rows, fetch_struct, fetch_structs, rows_of, structs_of

CHUNK_BYTES = 1 << 20
MAX_FILE_BYTES = 2_000_000_000
MAX_FILES = 100
"""Files of a book, with those that its steps write."""
RETENTION = timedelta(days=30)
"""Time after the last change of a book or its last step, after which its files and its key are deleted."""
MAX_HEAD_BYTES, MAX_TAIL_BYTES = 256 * 1024, 32 * 1024
"""Bytes of a step's output that are stored: from its beginning, and from its end."""

StepKind = Literal["init", "check", "values", "rehearse", "errors", "push", "reconcile"]
StepState = Literal["proposed", "waiting", "running", "pausing", "paused", "ended", "failed"]
LIVE = ("waiting", "running", "pausing")
"""States of a step while which the files of its book must not change."""


class BooksFull(StoreUnavailable):
    """There is no space for more files of books. Nothing that is stored is lost."""


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """Books that a user may see: those of an organisation and of suppliers, None for all."""

    organisation: str
    suppliers: list[str] | None
    user_id: str


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a book. Times and `exit_code` are None before they are known; `error` is a key of `STEP_ERRORS`."""

    step: str
    book: str
    kind: StepKind
    command: str
    arguments: dict[str, str]
    user_id: str
    requested_at: datetime
    state: StepState
    percent: int | None
    exit_code: int | None
    error: str
    started_at: datetime | None
    ended_at: datetime | None
    approved_by: str
    approved_at: datetime | None
    counts: dict[str, int]
    """Numbers of files and bytes of the frozen preview, for the second person."""
    preview: str
    """Digest over the files that a second person approves; "" without a second person."""


class Book(msgspec.Struct, frozen=True, kw_only=True):
    """A book with the number and size of its files. `erase_at` is the time of its erasure if nothing happens."""

    book: str
    supplier: str
    run: str
    organisation: str
    user_id: str
    created_at: datetime
    erase_at: datetime
    erased_at: datetime | None
    erased_by: str
    files: int
    bytes: int
    latest: Step | None = None

    @property
    def sort_key(self) -> tuple[datetime, str]:
        """Key of the list of books."""
        return self.created_at, self.book


class BookFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a book. `step` is the step that wrote it, "" for a user's. An unfinished upload is not whole."""

    file: int
    name: str
    size: int
    received: int
    is_whole: bool
    step: str
    written_at: datetime
    digest: str

    @property
    def chunks(self) -> int:
        """Number of chunks of a whole file."""
        return -(-self.size // CHUNK_BYTES)

    @property
    def is_text(self) -> bool:
        """Return True for a file that a page can show and change."""
        return self.name.endswith((".yaml", ".yml", ".csv", ".txt", ".json")) and self.size <= 1_000_000


_BOOK = """
SELECT b.book, b.supplier, b.run, b.organisation, b.user_id, b.created_at, b.touched_at + %(retention)s AS erase_at,
       b.erased_at, b.erased_by,
       (SELECT count(*) FROM book_files AS f WHERE f.book = b.book AND f.is_whole) AS files,
       (SELECT coalesce(sum(f.received), 0)::bigint FROM book_files AS f WHERE f.book = b.book) AS bytes
FROM books AS b
WHERE b.organisation = %(organisation)s AND (%(suppliers)s::text[] IS NULL OR b.supplier = ANY(%(suppliers)s::text[]))
"""
_SELECT_BOOKS = f"""{_BOOK}
  AND (%(at)s::timestamptz IS NULL OR (b.created_at, b.book) < (%(at)s::timestamptz, %(after)s))
ORDER BY b.created_at DESC, b.book DESC
LIMIT %(limit)s
"""
_SELECT_BOOK = f"{_BOOK} AND b.book = %(book)s"
_STEP_COLUMNS = """step, book, kind, command, arguments, user_id, requested_at, state, percent, exit_code, error,
    started_at, ended_at, approved_by, approved_at, counts, preview"""
_SELECT_STEPS = f"SELECT {_STEP_COLUMNS} FROM book_steps WHERE book = %s ORDER BY number DESC"  # noqa: S608
_SELECT_LATEST = f"""
SELECT DISTINCT ON (book) {_STEP_COLUMNS} FROM book_steps WHERE book = ANY(%s) ORDER BY book, number DESC
"""  # noqa: S608 - constants
_SELECT_STEP = f"SELECT {_STEP_COLUMNS} FROM book_steps WHERE book = %s AND step = %s"  # noqa: S608 - constants
_SELECT_FILES = """
SELECT file, name, size, received, is_whole, step, written_at, digest
FROM book_files
WHERE book = %s
ORDER BY name, is_whole
"""
_SELECT_FILE = f"{_SELECT_FILES.partition('ORDER')[0]} AND name = %s AND is_whole"
_SELECT_CHUNK = """
SELECT b.key, c.content
FROM books AS b JOIN book_files AS f USING (book) JOIN book_chunks AS c USING (file)
WHERE c.file = %s AND c.number = %s AND b.key IS NOT NULL
"""
_SELECT_OUTPUT = """
SELECT b.key, s.output FROM book_steps AS s JOIN books AS b USING (book)
WHERE s.book = %s AND s.step = %s AND b.key IS NOT NULL
"""
_SELECT_CHUNKS = "SELECT number, content, digest FROM book_chunks WHERE file = %s AND number = %s"
_INSERT_CHUNK = """
INSERT INTO book_chunks (file, number, content, digest) VALUES (%s, %s, %s, %s) ON CONFLICT (file, number) DO NOTHING
"""
_SELECT_DIGESTS = "SELECT digest FROM book_chunks WHERE file = %s ORDER BY number"


def new_id(kind: str) -> str:
    """Return a random id that cannot be guessed, for a book (`b`) or a step (`s`)."""
    return f"{kind}_{secrets.token_hex(12)}"


def sealed(key: bytes, place: str, data: bytes) -> bytes:
    """Return the data compressed and encrypted. `place` binds it to where it is stored."""
    nonce = os.urandom(12)
    return nonce + AESGCM(key).encrypt(nonce, zstandard.ZstdCompressor(level=1).compress(data), place.encode())


def unsealed(key: bytes, place: str, content: bytes) -> bytes:
    """Return the data of an encrypted content. Raises InvalidTag if it was stored elsewhere."""
    compressed = AESGCM(key).decrypt(content[:12], content[12:], place.encode())
    return zstandard.ZstdDecompressor().decompress(compressed)


def digest_of(key: bytes, data: bytes) -> bytes:
    """Return a digest of a chunk that nobody can compute or guess after the key was deleted."""
    return hmac.digest(key, data, "sha256")


async def books_page(
    connection: AsyncConnection[Any], *, reach: Reach, before: tuple[datetime, str] | None = None, limit: int = 50
) -> list[Book]:
    """Return books within the reach, the newest first, each with its latest step."""
    at, after = before or (None, "")
    books = await fetch_structs(connection, Book, _SELECT_BOOKS, **_within(reach), at=at, after=after, limit=limit)
    steps = await fetch_structs(connection, step_of_row, _SELECT_LATEST, [book.book for book in books])
    latest = {step.book: step for step in steps}
    return [msgspec.structs.replace(book, latest=latest.get(book.book)) for book in books]


async def book_of(connection: AsyncConnection[Any], reach: Reach, book: str) -> Book | None:
    """Return the book; None if it is not within the reach or does not exist."""
    found = await fetch_struct(connection, Book, _SELECT_BOOK, **_within(reach), book=book)
    if found is None:
        return None
    [*steps] = await fetch_structs(connection, step_of_row, _SELECT_LATEST, [book])
    return msgspec.structs.replace(found, latest=steps[0] if steps else None)


async def files_of(connection: AsyncConnection[Any], book: str) -> list[BookFile]:
    """Return the files of a book by name, with unfinished uploads and without importbook's own notes."""
    files = await fetch_structs(connection, BookFile, _SELECT_FILES, book)
    return [file for file in files if not file.name.startswith(".")]


async def file_of(connection: AsyncConnection[Any], book: str, name: str) -> BookFile | None:
    """Return the whole file of this name; None if there is none."""
    return await fetch_struct(connection, BookFile, _SELECT_FILE, book, name)


async def steps_of(connection: AsyncConnection[Any], book: str) -> list[Step]:
    """Return the steps of a book, the newest first."""
    return await fetch_structs(connection, step_of_row, _SELECT_STEPS, book)


async def output_of(connection: AsyncConnection[Any], book: str, step: str) -> str:
    """Return the output of a step so far: its beginning and its end; "" without one, or after the erasure."""
    rows = await fetch_rows(connection, _SELECT_OUTPUT, book, step)
    if not rows or not rows[0][1]:
        return ""
    return unsealed(bytes(rows[0][0]), step, bytes(rows[0][1])).decode(errors="replace")


async def read_chunk(connection: AsyncConnection[Any], file: BookFile, number: int) -> bytes | None:
    """Return a chunk of a file, counted from 0; None if the file was deleted or replaced meanwhile."""
    rows = await fetch_rows(connection, _SELECT_CHUNK, file.file, number)
    if not rows:
        return None
    key, content = rows[0]
    return unsealed(bytes(key), f"{file.file}/{number}", bytes(content))


async def read_text(connection: AsyncConnection[Any], book: str, name: str, limit: int = 1_000_000) -> str | None:
    """Return the beginning of a whole file as text, at most `limit` bytes; None if there is no such file."""
    if (file := await file_of(connection, book, name)) is None:
        return None
    parts = list[bytes]()
    for number in range(min(file.chunks, -(-limit // CHUNK_BYTES))):
        if (chunk := await read_chunk(connection, file, number)) is None:
            return None
        parts.append(chunk)
    return b"".join(parts)[:limit].decode(errors="replace")


def step_of_row(**row: Any) -> Step:
    """Return the step of a row of `book_steps`."""
    return Step(
        **row
        | {
            "arguments": msgspec.json.decode(row["arguments"], type=dict[str, str]),
            "counts": msgspec.json.decode(row["counts"], type=dict[str, int]),
        }
    )


def book_within(connection: Connection[Any], reach: Reach, book: str) -> Book | None:
    """Return the book for a writer; None if it is not within the reach, does not exist, or was erased."""
    found = structs_of(connection, Book, _SELECT_BOOK, **_within(reach), book=book)
    return found[0] if found and found[0].erased_at is None else None


def step_within(connection: Connection[Any], book: str, step: str) -> Step | None:
    found = structs_of(connection, step_of_row, _SELECT_STEP, book, step)
    return found[0] if found else None


def list_files(connection: Connection[Any], book: str) -> list[BookFile]:
    return structs_of(connection, BookFile, _SELECT_FILES, book)


def write_chunk(connection: Connection[Any], key: bytes, file: int, number: int, data: bytes) -> None:
    """Store a chunk of a file. A chunk that is stored already stays."""
    content = sealed(key, f"{file}/{number}", data)
    connection.execute(_INSERT_CHUNK, (file, number, content, digest_of(key, data)))


def read_chunks(connection: Connection[Any], key: bytes, file: BookFile) -> Iterator[bytes]:
    """Yield the chunks of a file. Raises ValueError if one is missing or differs from its digest."""
    for number in range(file.chunks):
        rows = rows_of(connection, _SELECT_CHUNKS, file.file, number)
        data = unsealed(key, f"{file.file}/{number}", bytes(rows[0][1])) if rows else b""
        if not rows or not hmac.compare_digest(digest_of(key, data), bytes(rows[0][2])):
            raise ValueError(f"chunk {number} of a file of the book cannot be read")
        yield data


def file_digest(connection: Connection[Any], file: int) -> str:
    """Return the digest over the digests of all chunks of a file."""
    digests = b"".join(bytes(digest) for (digest,) in rows_of(connection, _SELECT_DIGESTS, file))
    return hashlib.sha256(digests).hexdigest()


def preview_of(files: Collection[BookFile], step: str, command: str) -> str:
    """Return the digest that freezes a command and the files that it reads, without those that `step` wrote."""
    parts = sorted((file.name, file.digest) for file in files if file.is_whole and file.step != step)
    return hashlib.sha256(msgspec.json.encode((command, parts))).hexdigest()


def _within(reach: Reach) -> dict[str, Any]:
    return {"organisation": reach.organisation, "suppliers": reach.suppliers, "retention": RETENTION}
