"""Signed checkpoints of the log's tree: making them, and keeping copies where the database's owner cannot reach.

A checkpoint is a note in the format of C2SP tlog-checkpoint, signed with Ed25519, with one extension line: the time.
Copies lie outside of the database as one object a checkpoint, in a folder or an object store, and are never changed.
"""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec
import obstore
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import ObjectStore, from_url

from eventstore.proof.verifier import Checkpoint, Invalid, key_id_of, read_checkpoint

ORIGIN = "importledger"
SUFFIX = ".note"
_DIGITS = 20
_READERS = 8


class KeyNotUsable(Exception):
    """The key that checkpoints are signed with is not 32 bytes in base64url."""


class OutsideUnavailable(Exception):
    """The place outside of the database does not answer, or refuses us."""


class LogKey(msgspec.Struct, frozen=True):
    """The key that signs a log's checkpoints. `name` is the log's origin, which names the key as well."""

    name: str
    private: Ed25519PrivateKey

    @classmethod
    def of(cls, secret: str) -> "LogKey":
        """From 32 random bytes in base64url. Raises KeyNotUsable."""
        try:
            seed = base64.urlsafe_b64decode(secret.strip() + "=" * (-len(secret.strip()) % 4))
            private = Ed25519PrivateKey.from_private_bytes(seed)
        except ValueError as error:
            raise KeyNotUsable("The sealing key must be 32 random bytes in base64url.") from error
        return cls(f"{ORIGIN}/{hashlib.sha256(_public(private)).hexdigest()[:16]}", private)

    @property
    def verifier(self) -> str:
        """The public key as a note verifier key: NAME+HASH+KEY. Auditors keep it."""
        public = _public(self.private)
        encoded = base64.b64encode(b"\x01" + public).decode()
        return f"{self.name}+{key_id_of(self.name, public).hex()}+{encoded}"

    def sign(self, size: int, root: bytes, at: datetime) -> str:
        """The signed checkpoint of a tree of this size with this root; `at` is UTC."""
        text = f"{self.name}\n{size}\n{base64.b64encode(root).decode()}\ntime {at:%Y-%m-%dT%H:%M:%SZ}\n"
        return f"{text}\n— {self.name} {self.signature(text.encode())}\n"

    def signature(self, message: bytes) -> str:
        """The key's id and its signature of the message, in base64."""
        key_id = key_id_of(self.name, _public(self.private))
        return base64.b64encode(key_id + self.private.sign(message)).decode()


class Outside:
    """Copies of checkpoints at a URL: file:///…, s3://…, gs://…, az://…."""

    def __init__(self, url: str) -> None:
        self.url = url

    def keep(self, size: int, note: str) -> None:
        """Keep a copy; one that is there already is left as it is. Raises OutsideUnavailable."""
        try:
            obstore.put(self._store(), _name(size), note.encode(), mode="create")
        except (FileExistsError, AlreadyExistsError):
            return
        except (BaseError, OSError, ValueError) as error:
            raise OutsideUnavailable(f"{self.url}: {type(error).__name__}") from error

    def sizes(self, *, since: int = 0) -> list[int]:
        """The sizes of the trees that copies speak of, ascending, from one on. Raises OutsideUnavailable."""
        return sorted(int(name.removesuffix(SUFFIX)) for name in self._names(since))

    def newest(self, *, since: int) -> int | None:
        """The largest size. A store lists only what is there `since` a size, unless there is nothing.

        Raises OutsideUnavailable.
        """
        sizes = self.sizes(since=since) or self.sizes()
        return sizes[-1] if sizes else None

    def notes(self) -> Iterator[tuple[str, str]]:
        """Every copy as (where it lies, note), the smallest tree first. Raises OutsideUnavailable."""
        store, names = self._store(), sorted(self._names())
        with ThreadPoolExecutor(_READERS) as readers:
            for name, note in zip(names, readers.map(lambda name: self._get(store, name), names), strict=True):
                yield f"{self.url}/{name}", note

    def note(self, size: int) -> str:
        """The copy for a tree of this size. Raises OutsideUnavailable."""
        return self._get(self._store(), _name(size))

    def _get(self, store: ObjectStore, name: str) -> str:
        try:
            return bytes(obstore.get(store, name).bytes()).decode("utf-8", "replace")
        except (BaseError, OSError) as error:
            raise OutsideUnavailable(f"{self.url}: {type(error).__name__}") from error

    def _names(self, since: int = 0) -> list[str]:
        before = _name(since - 1) if since else None  # stores list what comes after a name
        try:
            found = [entry["path"] for batch in obstore.list(self._store(), offset=before) for entry in batch]
        except (BaseError, OSError) as error:
            raise OutsideUnavailable(f"{self.url}: {type(error).__name__}") from error
        return [name for name in found if name.endswith(SUFFIX) and name.removesuffix(SUFFIX).isdigit()]

    def _store(self) -> ObjectStore:
        try:
            if self.url.startswith("file:"):
                Path(unquote(urlsplit(self.url).path)).mkdir(parents=True, exist_ok=True, mode=0o700)
                return from_url(self.url)
            return from_url(
                self.url,
                client_options={"allow_http": True, "timeout": "10s", "connect_timeout": "2s"},
                retry_config={"max_retries": 1},
            )
        except (BaseError, OSError, ValueError) as error:
            raise OutsideUnavailable(f"{self.url}: {type(error).__name__}") from error


def read_signed(note: str, keys: Sequence[str]) -> Checkpoint:
    """A checkpoint that one of the verifier keys has signed. Raises Invalid."""
    for key in keys[:-1]:
        with suppress(Invalid):
            return read_checkpoint(note, key, verify=is_signed)
    return read_checkpoint(note, keys[-1], verify=is_signed)


def is_signed(public: bytes, message: bytes, signature: bytes) -> bool:
    """As `verifier.ed25519_verify`, in a thirtieth of the time: a log gets a checkpoint a minute."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _name(size: int) -> str:
    return f"{size:0{_DIGITS}}{SUFFIX}"


def _public(private: Ed25519PrivateKey) -> bytes:
    return private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
