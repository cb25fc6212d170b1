"""Text of importers in events: encrypted under the key of the person whom it concerns, as payloads are.

The log is kept permanently, and a reason or a field name that an importer chooses may concern a person. The ledger
encrypts the text before it decides on a command; events have the encrypted text as `private`. After the person's
erasure, nobody can read the text. An Idempotency-Key must be found again but never read, so it is stored as a digest
(`eventstore.log.answers`).
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
    """Return the field with importers' text, in a command and in its event; None for kinds without such a field."""
    fields = kind.__struct_fields__
    return next(name for name in ("reason", "dropped_fields") if name in fields) if "private" in fields else None


def is_private(command: Command) -> bool:
    """Return whether the command holds importers' text that is not encrypted yet."""
    name = _chosen(type(command))
    return name is not None and bool(getattr(command, name))


def encrypted(command: Command, stream: str, key: bytes) -> Command:
    """Return the command with the text in `private`, encrypted for this stream."""
    name = _chosen(type(command)) or ""
    nonce, text = os.urandom(_NONCE_BYTES), msgspec.json.encode(getattr(command, name))
    content = nonce + AESGCM(key).encrypt(nonce, text, _bound_to(stream))
    changes: dict[str, Any] = {"private": base64.b64encode(content).decode(), name: type(getattr(command, name))()}
    return msgspec.structs.replace(command, **changes)


def has_private(event: Event) -> bool:
    """Return whether a key is needed to read the event completely."""
    return bool(getattr(event, "private", ""))


def decrypted(event: Event, stream: str, key: bytes | None) -> Event:
    """Return the event with its text decrypted; unchanged without a key or with a wrong key."""
    if key is None or not has_private(event):
        return event
    name = _chosen(type(event)) or ""
    try:
        content = base64.b64decode(event.private)  # type: ignore[attr-defined]
        text = AESGCM(key).decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], _bound_to(stream))
        value = msgspec.json.decode(text, type=type(getattr(event, name)))
    except (InvalidTag, ValueError, msgspec.MsgspecError):
        return event
    return msgspec.structs.replace(event, **{name: value, "private": ""})


def _bound_to(stream: str) -> bytes:
    """Return the associated data of the cipher: text that is moved to another stream cannot be decrypted."""
    return f"private/{stream}".encode()
