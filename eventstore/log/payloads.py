"""Payloads: importers' bytes as received, zstd-compressed, encrypted, stored outside of the log by (stream, SHA-256).

Each import process has a key (AES-256-GCM) in a separate table, which also encrypts later records of its account. Each
market participant has a key for its contacts. All other payloads contain no personal data and are only compressed.
"""

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from psycopg import Connection
from psycopg.rows import tuple_row

from eventstore.aggregates.supplier import SupplierArchived
from eventstore.aggregates.supplier import stream_of as supplier_stream
from eventstore.errors import AccountErased
from eventstore.events import read_event, subject_of
from eventstore.log.arrays import ARRAY_OF
from eventstore.log.compression import UnknownDictionary, compressed, decompressed
from redaction.text import counted

T = TypeVar("T")
PayloadId = tuple[str, str]
"""Name of a payload: its stream and its hexadecimal digest."""

_KEY_BYTES = 32
_NONCE_BYTES = 12
_ENCRYPTED = b"\x01"
"""First byte of encrypted contents; the first byte of a zstd frame differs."""

MAX_OPEN_BYTES = 8_000_000
"""Most bytes of payloads in memory at a time. A payload above `MAX_OPEN_BYTES // AT_A_TIME` is read alone."""

AT_A_TIME = 200
"""Payloads per query. Contents larger than their share of MAX_OPEN_BYTES are read one by one."""

_SELECT_CONTENTS = """
SELECT w.ordinal, CASE WHEN p.received_bytes <= %b THEN p.content END, k.key
FROM unnest(%b::text[], %b::bytea[]) WITH ORDINALITY AS w (stream, sha256, ordinal)
JOIN payloads AS p ON p.stream = w.stream AND p.sha256 = w.sha256
LEFT JOIN payload_keys AS k ON k.stream = coalesce(p.subject, p.stream)
"""
_ANY_SIZE = 2**31 - 1
_SELECT_ARCHIVE = """
SELECT topic, state
FROM events
WHERE stream = %s AND topic IN ('supplier_archived.v1', 'archive_attached.v1')
ORDER BY version DESC
LIMIT 1
"""
SELECT_ERASED = """
SELECT payload_keys.stream
FROM payload_keys
JOIN events ON events.stream = payload_keys.stream AND version = 1
WHERE key IS NULL
  AND NOT EXISTS (
      SELECT FROM events AS e
      WHERE e.stream = payload_keys.stream AND e.topic IN ('subject_erased.v1', 'contacts_erased.v1'))
ORDER BY payload_keys.stream
"""
"""Query of subjects whose keys are deleted although the log has no erasure of them."""


class Payload(msgspec.Struct, frozen=True):
    """Request body: the digest of its bytes as received, and its compressed, possibly encrypted form.

    `subject` is the import stream whose key encrypts the payload, if it is another stream than the payload's. `new_key`
    is a key to be stored with the payload. `view_values` are values of the body for a view that the append writes; they
    are not stored with the payload. A payload without `has_person` is not encrypted.
    """

    sha256: bytes
    received_bytes: int
    content: bytes
    subject: str | None = None
    new_key: bytes | None = None
    view_values: tuple[str, ...] | None = None
    has_person: bool = True

    @classmethod
    def of(cls, body: bytes, view_values: tuple[str, ...] | None = None, *, has_person: bool = True) -> "Payload":
        return cls(
            hashlib.sha256(body).digest(), len(body), compressed(body), view_values=view_values, has_person=has_person
        )

    def body(self) -> bytes:
        """Return the body of a payload that is not encrypted."""
        return decompressed(self.content)

    def encrypted(self, stream: str, key: bytes | None, *, subject: str) -> "Payload":
        """Return the payload encrypted for this stream, with the subject's key or a new one."""
        new_key = None
        if key is None:  # one system call for key and nonce
            drawn = os.urandom(_NONCE_BYTES + _KEY_BYTES)
            nonce, key = drawn[:_NONCE_BYTES], drawn[_NONCE_BYTES:]
            new_key = key
        else:
            nonce = os.urandom(_NONCE_BYTES)
        content = _ENCRYPTED + nonce + AESGCM(key).encrypt(nonce, self.content, stream.encode())
        other_subject = None if subject == stream else subject
        return Payload(self.sha256, self.received_bytes, content, other_subject, new_key, self.view_values)


def random_key() -> bytes:
    return os.urandom(_KEY_BYTES)


class PayloadErased(ValueError):
    """The payload's key is missing: the person was erased, or the keys were not restored."""


def keys_for(connection: Connection[Any], subjects: Collection[str]) -> dict[str, bytes]:
    """Return the key of each import stream, and create missing keys.

    Raises AccountErased. A new key is committed before its first use, so that concurrent callers get the same key.
    """
    connection.execute(
        "SELECT add_payload_keys(%s::text[], %s::bytea[])", (list(subjects), [random_key() for _ in subjects])
    )
    with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
        cursor.execute("SELECT stream, key FROM payload_keys WHERE stream = ANY(%b)", (list(subjects),))
        keys: dict[str, bytes] = dict(cursor.fetchall())
    if None in keys.values():
        raise AccountErased
    return keys


def refuse_erased(connection: Connection[Any], subjects: Collection[str]) -> None:
    """Raise AccountErased if a subject was erased since its key was read. The caller holds the platform's lock."""
    query = "SELECT FROM payload_keys WHERE stream = ANY(%s) AND key IS NULL"
    if subjects and connection.execute(query, (list(subjects),)).fetchone() is not None:
        raise AccountErased


def stored_contents(
    connection: Connection[Any], payload_ids: Sequence[tuple[str, bytes]]
) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Yield stored payloads by stream and digest, as (index in `payload_ids`, content, key), in order.

    Erased and archived payloads are missing; the key of an erased person is None. Few large payloads are in memory at a
    time.
    """
    for first in range(0, len(payload_ids), AT_A_TIME):
        rows = _contents(connection, payload_ids[first : first + AT_A_TIME], MAX_OPEN_BYTES // AT_A_TIME)
        rows.sort(key=itemgetter(0), reverse=True)  # not in SQL: Postgres would copy each content
        while rows:  # contents are dropped one by one to save memory
            ordinal, content, key = rows.pop()
            number = first + ordinal - 1
            if content is not None:
                yield number, content, key
                continue
            for _, large_content, large_key in _contents(connection, [payload_ids[number]], _ANY_SIZE):
                yield number, large_content, large_key


def _contents(
    connection: Connection[Any], payload_ids: Sequence[tuple[str, bytes]], max_bytes: int
) -> list[tuple[Any, ...]]:
    """Return (number in `payload_ids` from 1, content, key). The content is None if its body exceeds `max_bytes`."""
    streams, digests = zip(*payload_ids, strict=True)
    parameters = max_bytes, ARRAY_OF["text"](streams), ARRAY_OF["bytea"](digests)
    with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
        return cursor.execute(_SELECT_CONTENTS, parameters).fetchall()


def read_payloads(connection: Connection[Any], payload_ids: Iterable[PayloadId]) -> Iterator[tuple[PayloadId, bytes]]:
    """Yield bodies one by one, each with its PayloadId. Erased bodies are missing. Verifies each digest."""
    names = [(stream, bytes.fromhex(digest)) for stream, digest in payload_ids]
    for index, content, key in stored_contents(connection, names):
        if is_readable(content, key):
            stream, sha256 = names[index]
            yield (stream, sha256.hex()), read_payload(stream, sha256, content, key)


def each_body(connection: Connection[Any], payload_ids: Iterable[PayloadId]) -> Iterator[bytes | ValueError | None]:
    """Yield each body in order; None if it is missing, ValueError if its digest is invalid or differs.

    Few bodies are in memory at a time.
    """
    names = [(stream, _digest(digest)) for stream, digest in payload_ids]
    contents = stored_contents(connection, [(stream, sha256) for stream, sha256 in names if sha256 is not None])
    index, following = 0, next(contents, None)
    for stream, sha256 in names:
        if sha256 is None:
            yield ValueError(f"the payload of {stream} has no digest")
            continue
        stored = following if following and following[0] == index else None
        index += 1
        if stored is None:
            yield None
            continue
        (_, content, key), following = stored, next(contents, None)
        body: bytes | ValueError | None
        try:
            body = read_payload(stream, sha256, content, key) if is_readable(content, key) else None
        except ValueError as error:
            body = error
        del stored, content  # free the body while the caller works
        yield body


def _digest(hexadecimal: str) -> bytes | None:
    try:
        return bytes.fromhex(hexadecimal)
    except ValueError:
        return None


def in_batches(items: Iterable[T], size: Callable[[T], int], max_bytes: int) -> Iterator[list[T]]:
    """Yield the items in order, in lists of at most `max_bytes` in size. A larger item is alone in its list. Pure."""
    piece: list[T] = []
    total = 0
    for item in items:
        if piece and total + size(item) > max_bytes:
            yield piece
            piece, total = [], 0
        piece.append(item)
        total += size(item)
    if piece:
        yield piece


def is_erased(connection: Connection[Any], subject: str) -> bool:
    """Return whether the key of this import stream was deleted."""
    return connection.execute("SELECT FROM payload_keys WHERE stream = %s AND key IS NULL", (subject,)).rowcount > 0


def is_readable(content: bytes, key: bytes | None) -> bool:
    """Return False for encrypted content without key."""
    return key is not None or not content.startswith(_ENCRYPTED)


def read_payload(stream: str, sha256: bytes, content: bytes, key: bytes | None) -> bytes:
    """Return the body of a stored content.

    Raises PayloadErased, and ValueError if the digest differs or only a newer version can read it.
    """
    if not is_readable(content, key):
        raise PayloadErased(f"payload of {stream} cannot be read: its key is missing")
    try:
        if content.startswith(_ENCRYPTED):
            nonce, encrypted = content[1 : 1 + _NONCE_BYTES], content[1 + _NONCE_BYTES :]
            content = AESGCM(key or b"").decrypt(nonce, encrypted, stream.encode())
        body = decompressed(content)
    except UnknownDictionary as error:
        raise ValueError(f"payload of {stream} cannot be read: {error}") from error
    except (InvalidTag, ValueError) as error:
        raise ValueError(f"payload of {stream} does not match its digest") from error
    if hashlib.sha256(body).digest() != sha256:
        raise ValueError(f"payload of {stream} does not match its digest")
    return body


def archive_of(connection: Connection[Any], code: str) -> SupplierArchived | None:
    """Return the archive of the supplier according to the log; None if the payloads are in the database."""
    with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
        row = cursor.execute(_SELECT_ARCHIVE, (supplier_stream(code),)).fetchone()
    event = read_event(supplier_stream(code), *row) if row else None
    return event if isinstance(event, SupplierArchived) else None


def detached_payloads(connection: Connection[Any], code: str, detached: int) -> tuple[str, dict[str, Any]]:
    """Return a sentence about `detached` payloads that are missing in a file, and JSON members with the same
    information.
    """
    archived = archive_of(connection, code) if detached else None
    members = {"detached": detached, "archive": archived.url if archived else None}
    if not detached:
        return "", members
    absent = counted(detached, "payload is", "payloads are")
    if archived is None:
        return f"\n{absent} not in it, nor in an archive: see `importledger verify --all`.", members
    location = f"they are in {archived.url}; `importledger archive attach {code}` restores them"
    return f"\n{absent} not in it: {location}.", members


def archive_url(connection: Connection[Any], code: str | None, stream: str) -> str | None:
    """Return the URL of the archive of a missing payload; None if it was erased or is in no archive."""
    archived = archive_of(connection, code) if code else None
    return None if archived is None or is_erased(connection, subject_of(stream) or stream) else archived.url


def reason_missing(connection: Connection[Any], code: str | None, stream: str) -> str:
    """Return why a payload of the supplier is missing, as a predicate: "is in URL; …" or "was erased"."""
    url = archive_url(connection, code, stream)
    return f"is in {url}; `importledger archive attach {code}` restores it" if url else "was erased"
