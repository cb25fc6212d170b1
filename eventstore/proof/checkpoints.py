"""Checkpoints of the log's tree: signing, and storing copies outside of the database.

A checkpoint is a note in the format of C2SP tlog-checkpoint, signed with Ed25519, with an extension line for the time.
Copies are one object per checkpoint in a folder or an object store to which the database's owner has no access. Copies
never change.
"""

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec
import obstore
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import ObjectStore

from eventstore.errors import OperatorError
from eventstore.proof.verifier import Checkpoint, Invalid, key_id_of, read_checkpoint
from system.object_store import open_store

ORIGIN = "importledger"
SUFFIX = ".note"
_DIGITS = 20
_CHECKPOINT = re.compile(r"(\d{20})(?:\.([1-9]\d{0,8}))?\.note")
_CONTINUATION = re.compile(r"continued\.([1-9]\d{0,8})\.note")
MAX_NOTE_BYTES = 1 << 20
"""Bytes of a checkpoint or a signed statement. Larger files are not read."""
_READERS = 8
_TIMEOUT_S = 10.0


class KeyNotUsable(OperatorError):
    """The sealing key is not 32 bytes in base64url."""


class CopiesUnavailable(OperatorError):
    """The location of the copies cannot be reached or refuses access. The message has its URL and the error's name."""


class LogKey(msgspec.Struct, frozen=True):
    """Key that signs a log's checkpoints. `name` is the log's origin and also names the key."""

    name: str
    private: Ed25519PrivateKey

    @classmethod
    def of(cls, secret: str, noun: str = "The sealing key") -> "LogKey":
        """Return the key from 32 random bytes in base64url.

        Raises KeyNotUsable. `noun` names the key in its message, which never contains the secret.
        """
        try:
            seed = base64.urlsafe_b64decode(secret.strip() + "=" * (-len(secret.strip()) % 4))
            private = Ed25519PrivateKey.from_private_bytes(seed)
        except ValueError as error:
            raise KeyNotUsable(f"{noun} must be 32 random bytes in base64url, 43 characters.") from error
        return cls(f"{ORIGIN}/{hashlib.sha256(_public(private)).hexdigest()[:16]}", private)

    @property
    def verifier(self) -> str:
        """Public key as a note verifier key, NAME+HASH+KEY, for auditors."""
        public = _public(self.private)
        encoded = base64.b64encode(b"\x01" + public).decode()
        return f"{self.name}+{key_id_of(self.name, public).hex()}+{encoded}"

    def sign(self, size: int, root: bytes, at: datetime, *, branch: int = 0, continues: str = "") -> str:
        """Return the signed checkpoint of a tree of this size with this root; `at` is UTC.

        `continues` is the line about the loss, in the first checkpoint of a branch.
        """
        text = f"{self.name}\n{size}\n{base64.b64encode(root).decode()}\ntime {at:%Y-%m-%dT%H:%M:%SZ}\n"
        text += f"branch {branch}\n" if branch else ""
        text += f"{continues}\n" if continues else ""
        return f"{text}\n— {self.name} {self.signature(text.encode())}\n"

    def signature(self, message: bytes) -> str:
        """Return the key's id and its signature of the message, in base64."""
        key_id = key_id_of(self.name, _public(self.private))
        return base64.b64encode(key_id + self.private.sign(message)).decode()


class Copy(NamedTuple):
    """Name of a copy, from the size of the checkpoint's tree and its branch.

    The first checkpoint of a branch has a second copy, `continued.BRANCH.note`, whose size counts as 0. A listing from
    any size on includes this second copy.
    """

    size: int
    branch: int

    @property
    def name(self) -> str:
        if not self.size:
            return f"continued.{self.branch}{SUFFIX}"
        return f"{self.size:0{_DIGITS}}.{self.branch}{SUFFIX}" if self.branch else f"{self.size:0{_DIGITS}}{SUFFIX}"

    @classmethod
    def of_name(cls, name: str) -> "Copy | None":
        """Return the copy with this file name; None for a name of another file."""
        if match := _CHECKPOINT.fullmatch(name):
            return cls(int(match[1]), int(match[2] or 0))
        match = _CONTINUATION.fullmatch(name)
        return cls(0, int(match[1])) if match else None


class CheckpointCopies:
    """Copies of signed checkpoints outside of the database, at a URL: file:///…, s3://…, gs://…, az://…."""

    def __init__(self, url: str) -> None:
        self.url = url

    def keep(self, size: int, note: str, *, branch: int = 0) -> None:
        """Store the copy of a checkpoint; an existing copy is not changed. Raises CopiesUnavailable."""
        with self._reached(), suppress(FileExistsError, AlreadyExistsError):
            obstore.put(self._store(), Copy(size, branch).name, note.encode(), mode="create")

    def sizes(self) -> list[int]:
        """Return the tree sizes of all copies, ascending. Raises CopiesUnavailable."""
        return sorted({copy.size for copy in self._copies(0) if copy.size})

    def ends(self, *, since: int) -> dict[int, int]:
        """Return the size of the largest copy, by branch. Raises CopiesUnavailable.

        Only copies from size `since` on are listed, unless there are none.
        """
        copies = self._copies(since)
        if not any(copy.size for copy in copies):
            copies = self._copies(0)
        sizes: dict[int, int] = {}
        for copy in copies:
            sizes[copy.branch] = max(copy.size, sizes.get(copy.branch, 0))
        return sizes

    def notes(self) -> Iterator[tuple[str, str]]:
        """Yield all copies as (URL, note), smallest tree first. Raises CopiesUnavailable."""
        store, names = self._store(), [copy.name for copy in sorted(self._copies(0)) if copy.size]
        with ThreadPoolExecutor(_READERS) as readers:
            for name, note in zip(names, readers.map(lambda name: self._get(store, name), names), strict=True):
                yield f"{self.url}/{name}", note

    def note(self, size: int, *, branch: int = 0) -> str:
        """Return the copy for a tree of a size; size 0 means the first checkpoint of the branch.

        Raises CopiesUnavailable.
        """
        return self._get(self._store(), Copy(size, branch).name)

    def _get(self, store: ObjectStore, name: str) -> str:
        with self._reached():
            return bytes(obstore.get(store, name).bytes()).decode("utf-8", "replace")

    def _copies(self, since: int) -> list[Copy]:
        before = Copy(since - 1, 0).name if since > 1 else None  # object stores list the names after this name
        with self._reached():
            paths = [entry["path"] for batch in obstore.list(self._store(), offset=before) for entry in batch]
        return [copy for name in paths if (copy := Copy.of_name(name))]

    def _store(self) -> ObjectStore:
        with self._reached():
            if self.url.startswith("file:"):
                Path(unquote(urlsplit(self.url).path)).mkdir(parents=True, exist_ok=True, mode=0o700)
            return open_store(self.url, timeout_s=_TIMEOUT_S)

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            raise CopiesUnavailable(f"{self.url}: {type(error).__name__}") from error


def read_note(file: Path) -> str:
    """Return the text of a checkpoint or certificate in a file. Raises Invalid if it is too large."""
    with file.open("rb") as source:
        content = source.read(MAX_NOTE_BYTES + 1)
    if len(content) > MAX_NOTE_BYTES:
        raise Invalid(f"{file} must not be larger than {MAX_NOTE_BYTES} bytes")
    return content.decode("utf-8", "replace")


def read_signed(note: str, keys: Sequence[str]) -> Checkpoint:
    """Return the checkpoint in a note. Raises Invalid unless one of the verifier keys has signed it."""
    for key in keys[:-1]:
        with suppress(Invalid):
            return read_checkpoint(note, key, verify=is_signed)
    return read_checkpoint(note, keys[-1], verify=is_signed)


def is_signed(public: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether the signature is valid, like `verifier.ed25519_verify`, but faster, with the library
    `cryptography`.
    """
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _public(private: Ed25519PrivateKey) -> bytes:
    return private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
