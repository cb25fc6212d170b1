"""Proofs: the history of one account as a file that anyone can check offline, without this service.

A proof is a zip with the events as in the log and their inclusion in the tree of the newest checkpoint. It also has
earlier checkpoints with their consistency, and the public key. A proof contains only data: the program that checks a
proof is distributed separately (`verifier.py`).
"""

import base64
import zipfile
from collections.abc import Mapping, Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.rows import dict_row

from eventstore.errors import OperatorError
from eventstore.events import payload_digest, subject_of
from eventstore.log.columns import SELECT_EVENTS
from eventstore.log.payloads import is_erased, read_payloads
from eventstore.log.rows import rows_of
from eventstore.proof.merkle import ReadTile, TreeDamaged, consistency_proof, inclusion_proof
from eventstore.proof.sealing import tile_reader
from eventstore.proof.verifier import FORMAT, Checkpoint
from redaction.private_files import open_private

README = """\
These are the events of one account in the import ledger, and the proof that they were not altered.

    importledger-verify {name} --key KEY --against CHECKPOINT

Get importledger-verify from the project's releases or with pip, never along with a proof. It needs Python 3.9 or newer
and nothing else. KEY is the log's verifier key as the operator gave it to you. Do not use log.vkey for that: anybody
can have written this file. CHECKPOINT is a signed checkpoint that you have kept, if you have one.
"""

_SELECT_EVENTS = (
    SELECT_EVENTS
    + """WHERE stream = ANY(%s)
ORDER BY position
"""
)
_SELECT_COVERING = """
SELECT note
FROM log_checkpoints AS c
WHERE size >= %s AND starts_with(note, %s) AND NOT EXISTS (
    SELECT FROM log_checkpoints AS later
    WHERE later.branch > c.branch AND later.continues < c.size AND c.size <= later.lost)
ORDER BY size, branch DESC
LIMIT 1
"""
_SELECT_CONTINUATIONS = """
SELECT size, note
FROM log_checkpoints
WHERE continues IS NOT NULL AND size <= %s AND starts_with(note, %s)
ORDER BY branch
"""


class NotProvable(OperatorError):
    """No checkpoint covers the events, or the log or its tree is damaged. The message is the reason."""


class Proof(msgspec.Struct, frozen=True):
    """Counts of a written proof: its events, the events of the checkpoint, its payloads, and missing payloads.

    `detached` counts missing payloads that only an archive has.
    """

    events: int
    size: int
    payloads: int
    detached: int


def write_proof(
    connection: Connection[Any],
    file: Path,
    streams: Sequence[str],
    newest: tuple[Checkpoint, str],
    key: str,
    *,
    further_notes: Mapping[int, str],
    payloads: bool,
) -> Proof:
    """Write the proof of these streams up to the newest checkpoint, given with its note, for a verifier key.

    With the key "" the proof contains no key. `further_notes` are other checkpoints to include, by size. Raises
    NotProvable.
    """
    checkpoint, note = newest
    with connection.cursor(binary=True, row_factory=dict_row) as cursor:
        events = [row for row in cursor.execute(_SELECT_EVENTS, (list(streams),)) if row["position"] <= checkpoint.size]
    if not events:
        raise NotProvable("There is no such import, or no checkpoint covers it yet. Run `importledger seal`.")
    notes: dict[int, str] = dict(rows_of(connection, _SELECT_CONTINUATIONS, checkpoint.size, checkpoint.origin + "\n"))
    notes |= _covering(connection, checkpoint.origin, events)
    notes |= {size: text for size, text in further_notes.items() if size <= checkpoint.size}
    notes[checkpoint.size] = note
    try:
        index = _index(tile_reader(connection), events, notes, checkpoint.size)
    except TreeDamaged as damaged:
        raise NotProvable(str(damaged)) from damaged
    bodies, detached = _payloads(connection, events) if payloads else ({}, 0)
    with open_private(file) as output, zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as proof:
        proof.writestr("README.txt", README.format(name=file.name))
        if key:
            proof.writestr("log.vkey", key + "\n")
        proof.writestr("proof.json", msgspec.json.format(msgspec.json.encode(index), indent=1))
        proof.writestr("events.ndjson", b"".join(msgspec.json.encode(event_line(row)) + b"\n" for row in events))
        for size, text in notes.items():
            proof.writestr(f"checkpoints/{size}.note", text)
        for digest, body in bodies.items():
            proof.writestr(f"payloads/{digest}", body)
    return Proof(len(events), checkpoint.size, len(bodies), detached)


def _index(read: ReadTile, events: Sequence[dict[str, Any]], notes: Mapping[int, str], size: int) -> dict[str, Any]:
    """Return the content of `proof.json`. Raises TreeDamaged."""
    return {
        "format": FORMAT,
        "size": size,
        "checkpoints": {str(older): f"checkpoints/{older}.note" for older in sorted(notes)},
        "inclusion": {str(row["position"]): _text(inclusion_proof(read, row["position"] - 1, size)) for row in events},
        "consistency": {str(older): _text(consistency_proof(read, older, size)) for older in sorted(notes)},
    }


def event_line(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with its time in ISO 8601 with microseconds, and its state as text. Raises NotProvable."""
    at = row["recorded_at"].astimezone(UTC).isoformat(timespec="microseconds")
    try:
        return row | {"recorded_at": at, "state": row["state"].decode()}
    except UnicodeDecodeError as error:
        raise NotProvable(f"The event at position {row['position']} is no text. Run `importledger verify`.") from error


def _covering(connection: Connection[Any], origin: str, events: Sequence[dict[str, Any]]) -> dict[int, str]:
    """Return, by size, the first checkpoint of an origin (that is, of a key) that covers each event."""
    notes: dict[int, str] = {}
    for event in events:
        for (note,) in rows_of(connection, _SELECT_COVERING, event["position"], origin + "\n"):
            notes[int(note.split("\n")[1])] = note
    return notes


def _payloads(connection: Connection[Any], events: Sequence[dict[str, Any]]) -> tuple[dict[str, bytes], int]:
    """Return the payloads of the events, and the number of missing payloads that were not erased."""
    digests = [(row["stream"], payload_digest(row["stream"], row["topic"], row["state"])) for row in events]
    payload_ids = [(stream, digest) for stream, digest in digests if digest is not None]
    bodies = dict(read_payloads(connection, payload_ids))
    missing = [stream for stream, digest in dict.fromkeys(payload_ids) if (stream, digest) not in bodies]
    detached = sum(not is_erased(connection, subject_of(stream) or stream) for stream in missing)
    return {digest: body for (_, digest), body in bodies.items()}, detached


def _text(nodes: Sequence[bytes]) -> list[str]:
    return [base64.b64encode(node).decode() for node in nodes]
