"""Text that importers chose, in events: under the key of the person whom it is about, as payloads are.

The log is kept for ever, and what importers write into a reason or the name of a field may speak of a person. It is
encrypted before a command is decided on; events carry it as `private`. When the person is erased, nobody can read it
any more. What has to be found again and never read, an Idempotency-Key, is kept as a digest (`eventstore.log.answers`).
"""

import base64
import os
from functools import cache
from typing import Any

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from eventstore.aggregates.aggregate import Command, Event

_NONCE_BYTES = 12


@cache
def _chosen(kind: type[Command | Event]) -> str | None:
    """Name of the field that importers chose, in a command and in the event that follows; only streams of a person."""
    fields = kind.__struct_fields__
    return next(name for name in ("reason", "dropped_fields") if name in fields) if "private" in fields else None


def is_private(command: Command) -> bool:
    """Whether the command says anything that importers chose and that is not encrypted yet."""
    name = _chosen(type(command))
    return name is not None and bool(getattr(command, name))


def encrypted(command: Command, stream: str, key: bytes) -> Command:
    """The same command with that in `private`, encrypted for this stream."""
    name = _chosen(type(command)) or ""
    nonce, said = os.urandom(_NONCE_BYTES), msgspec.json.encode(getattr(command, name))
    content = nonce + AESGCM(key).encrypt(nonce, said, _bound_to(stream))
    changes: dict[str, Any] = {"private": base64.b64encode(content).decode(), name: type(getattr(command, name))()}
    return msgspec.structs.replace(command, **changes)


def has_private(event: Event) -> bool:
    """Whether a key is needed to read the event whole."""
    return bool(getattr(event, "private", ""))


def decrypted(event: Event, stream: str, key: bytes | None) -> Event:
    """The event as it can be read: whole with the person's key; without it, and where it does not fit, as it is."""
    if key is None or not has_private(event):
        return event
    name = _chosen(type(event)) or ""
    try:
        content = base64.b64decode(event.private)  # type: ignore[attr-defined]
        said = AESGCM(key).decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], _bound_to(stream))
        value = msgspec.json.decode(said, type=type(getattr(event, name)))
    except (InvalidTag, ValueError, msgspec.MsgspecError):
        return event
    return msgspec.structs.replace(event, **{name: value, "private": ""})


def _bound_to(stream: str) -> bytes:
    """What the cipher is bound to: text that is moved to another stream, or among payloads, cannot be decrypted."""
    return f"private/{stream}".encode()
