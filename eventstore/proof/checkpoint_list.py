"""Checkpoints for people: a list, the newest checkpoint, and the comparison of a user's checkpoint with the log.

The public half of each sealing key is stored beside the checkpoints (`log_keys`). A checkpoint names its key by the
key's hash, so that the stored key cannot be replaced.
"""

import hashlib
import re
from datetime import datetime
from typing import Any, Literal

import msgspec
from psycopg import AsyncConnection, Connection

from eventstore.log.columns import SELECT_HEAD, log_head
from eventstore.log.rows import fetch_rows, fetch_structs, rows_of
from eventstore.proof.checkpoints import read_signed
from eventstore.proof.merkle import TreeDamaged, range_root
from eventstore.proof.sealing import tile_reader, tree_size
from eventstore.proof.verifier import Checkpoint, Invalid, read_key

PAGE = 20
"""Checkpoints per page."""
Verdict = Literal["agrees", "differs", "longer", "lost", "stranger", "unreadable", "not_signed", "not_sealed"]
"""Result of comparing a checkpoint from elsewhere with the log.

`agrees`, `differs`: the checkpoint's root equals, or does not equal, the root of the stored tree. `longer`: the
checkpoint has more events than the log. `not_sealed`: it has more events than the stored tree. `lost`: its last events
belong to a recorded loss. `unreadable`: the text is not a checkpoint. `stranger`: the checkpoint names an unknown key.
`not_signed`: the signature is wrong.
"""


class ListedCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Checkpoint of a list. `continues` and `lost` are set on the first checkpoint after a recorded loss."""

    size: int
    branch: int
    sealed_at: datetime
    continues: int | None
    lost: int | None
    note: str

    @property
    def key_name(self) -> str:
        """Name of the key that signed the checkpoint. The name is the log's origin."""
        return self.note.partition("\n")[0]

    @property
    def root(self) -> str:
        """Root of the tree, in base64."""
        return [*self.note.split("\n"), "", "", ""][2]


class CheckpointPage(msgspec.Struct, frozen=True):
    """Page of the newest branch's checkpoints, newest first.

    `head` is the last position in the log; `next_before` is the cursor of the next page, 0 on the last page.
    """

    checkpoints: list[ListedCheckpoint]
    head: int
    next_before: int

    @property
    def newest(self) -> ListedCheckpoint | None:
        return self.checkpoints[0] if self.checkpoints else None


class SealingKey(msgspec.Struct, frozen=True):
    """Key that has sealed the log: its name, its public half, and its first use."""

    origin: str
    verifier: str
    used_at: datetime


class Comparison(msgspec.Struct, frozen=True):
    """Result of a comparison.

    `note` is the checkpoint with only the log's signature; "" if the log has not signed it.
    """

    verdict: Verdict
    size: int = 0
    time: str = ""
    note: str = ""


_SELECT_PAGE = """
SELECT size, branch, sealed_at, continues, lost, note
FROM log_checkpoints
WHERE branch = (SELECT max(branch) FROM log_checkpoints) AND (%(before)s::bigint IS NULL OR size < %(before)s)
ORDER BY size DESC
LIMIT %(limit)s
"""
_SELECT_NEWEST = "SELECT note FROM log_checkpoints ORDER BY branch DESC, size DESC LIMIT 1"
_SELECT_KEY = "SELECT verifier FROM log_keys WHERE origin = %s"
_SELECT_KEYS = "SELECT origin, verifier, used_at FROM log_keys ORDER BY used_at DESC, origin LIMIT 100"
_SELECT_LOSSES = "SELECT branch, continues, lost FROM log_checkpoints WHERE continues IS NOT NULL"


async def sealing_keys(connection: AsyncConnection[Any]) -> list[SealingKey]:
    """Return the keys that have sealed the log, newest first."""
    return await fetch_structs(connection, SealingKey, _SELECT_KEYS)


async def checkpoint_page(connection: AsyncConnection[Any], before: int | None) -> CheckpointPage:
    """Return the checkpoints of the newest branch, with trees smaller than `before` if given."""
    rows = await fetch_structs(connection, ListedCheckpoint, _SELECT_PAGE, before=before, limit=PAGE + 1)
    [(head,)] = await fetch_rows(connection, SELECT_HEAD)
    return CheckpointPage(rows[:PAGE], head, rows[PAGE - 1].size if len(rows) > PAGE else 0)


def newest_signed(connection: Connection[Any]) -> tuple[Checkpoint, str, str] | None:
    """Return the newest checkpoint, its note and its key; None if no known key has signed one."""
    note = next((note for (note,) in rows_of(connection, _SELECT_NEWEST)), "")
    try:
        key = _verifier_key(connection, note.partition("\n")[0])
        return read_signed(note, (key,)), note, key
    except Invalid:
        return None


def _verifier_key(connection: Connection[Any], origin: str) -> str:
    """Return the public key of an origin, NAME+HASH+KEY; "" if it is unknown or does not match its name."""
    key = next((key for (key,) in rows_of(connection, _SELECT_KEY, origin)), "")
    try:
        name, _, public = read_key(key)
    except Invalid:
        return ""
    return key if name == origin and name.rpartition("/")[2] == hashlib.sha256(public).hexdigest()[:16] else ""


def compare_with_log(connection: Connection[Any], note: str) -> Comparison:
    """Compare a checkpoint that was not read from the database with the stored tree."""
    text, separator, signatures = note.strip().partition("\n\n")
    lines = text.split("\n")
    if not separator or len(lines) < 3 or not re.fullmatch("[0-9]{1,18}", lines[1]):
        return Comparison("unreadable")
    key = _verifier_key(connection, lines[0])
    if not key:
        return Comparison("stranger")
    signature = next((line for line in signatures.splitlines() if line.startswith(f"— {lines[0]} ")), "")
    signed = f"{text}\n\n{signature}\n"
    try:
        checkpoint = read_signed(signed, (key,))
    except Invalid:
        return Comparison("not_signed")
    return Comparison(_verdict(connection, checkpoint), checkpoint.size, checkpoint.time, signed)


def _verdict(connection: Connection[Any], checkpoint: Checkpoint) -> Verdict:
    losses = rows_of(connection, _SELECT_LOSSES)
    if any(branch > checkpoint.branch and continues < checkpoint.size <= lost for branch, continues, lost in losses):
        return "lost"
    if checkpoint.size > log_head(connection):
        return "longer"
    if checkpoint.size > tree_size(connection):
        return "not_sealed"
    try:
        root = range_root(tile_reader(connection), 0, checkpoint.size)
    except TreeDamaged:
        return "differs"
    return "agrees" if root == checkpoint.root else "differs"
