"""Check a proof or a certificate of the import ledger: one file, the standard library only, no network.

    importledger-verify PROOF.zip|CERTIFICATE.json --key VKEY [--against CHECKPOINT]...

Auditors get this program separately (`deploy/verifier/`), never together with a proof. A proof contains the events of
one account and their inclusion in the log's Merkle tree (RFC 6962). A proof also contains signed checkpoints of this
tree (C2SP tlog-checkpoint, Ed25519), and the consistency of older checkpoints with the newest. A certificate is a JSON
object that the ledger has signed, with the log's newest checkpoint. The exit code is 0 if the key was given and there
is no problem, otherwise 1 with a sentence for each problem. A key in the checked file proves nothing. A leaf is one row
of the log: the number of columns (2 bytes), then for each column its length (4 bytes, -1 for none) and its bytes.
Numbers are big-endian; times are microseconds since 2000-01-01 UTC; texts are UTF-8. The ledger uses this file, too.
"""

import argparse
import base64
import hashlib
import itertools
import json
import re
import struct
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

FORMAT = 1
MAX_MEMBERS, MAX_MEMBER_BYTES, MAX_BYTES = 10_000, 64_000_000, 512_000_000
"""Most files of a proof, most bytes of a file and of all files, according to the zip. Larger proofs are not read."""
MAX_VALUES, MAX_LISTED, MAX_PROBLEMS, MAX_SENTENCE = 2_000_000, 10, 500, 1_000
"""Most values of a JSON text, numbers in a sentence, problems that are printed, and characters of a printed line."""
COLUMNS = ("position", "stream", "version", "topic", "recorded_at",
           "supplier", "caused_by", "command_id", "code_version", "state")  # fmt: skip
"""Columns of a row, in the leaf's order."""
_NUMBER_BYTES = {"position": 8, "version": 4, "recorded_at": 8}  # of the columns that are numbers
_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 - runs on Python 3.9


class Invalid(Exception):
    """A proof, checkpoint, certificate or key failed a check. The message is the reason."""


class RecordedLoss(NamedTuple):
    """Loss of signed events after position `last_kept` up to `last_lost`, as a branch's first checkpoint records it."""

    branch: int
    last_kept: int
    last_lost: int
    reason: str
    time: str

    def __str__(self) -> str:
        lost = f"lost {self.last_kept + 1}–{self.last_lost}"
        return f"since {self.time} the log continues from {self.last_kept}, {lost}: {self.reason}"


class Checkpoint(NamedTuple):
    """Signed statement that the tree of the first `size` events has the root. `time` is the time of the log, as text.

    `branch` counts the recorded losses of signed events so far. The first checkpoint after a loss has the `loss`.
    """

    origin: str
    size: int
    root: bytes
    time: str
    branch: int = 0
    loss: "RecordedLoss | None" = None


@contextmanager
def collecting(problems: "list[str]", name: str) -> "Iterator[None]":
    """Catch an Invalid error of the block, and add it to `problems` after the name of what was checked."""
    try:
        yield
    except Invalid as error:
        problems.append(f"{name}: {error}")


# --- The tree: RFC 6962, section 2.1. `leaf_hash` is of a leaf's bytes, `node_hash` of the hashes of two child nodes


def leaf_hash(leaf: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + leaf).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def leaf_of(event: "dict[str, Any]") -> bytes:
    """Return the bytes of an event's leaf (see the top of this file), from its object in a proof. Raises Invalid."""
    parts = [struct.pack(">h", len(COLUMNS))]
    try:
        for name in COLUMNS:
            value, size = event[name], _NUMBER_BYTES.get(name)
            if value is None:
                parts.append(struct.pack(">i", -1))
                continue
            if name == "recorded_at":
                past = datetime.fromisoformat(value.replace("Z", "+00:00")) - _EPOCH
                value = (past.days * 86_400 + past.seconds) * 1_000_000 + past.microseconds
            content = value.to_bytes(size, "big", signed=True) if size else value.encode()
            parts += [struct.pack(">i", len(content)), content]
    except (KeyError, ValueError, AttributeError, OverflowError, TypeError) as error:
        raise Invalid(f"an event is incomplete: {error!r}") from error
    return b"".join(parts)


def _siblings(index: int, last: int, proof: Sequence[bytes]) -> "Iterator[tuple[bool, bytes]]":
    """Yield (is left, hash) of each sibling on the path from a node to the root. Raises Invalid for a wrong length.

    `index` is the index of the node on its level of the tree, and `last` of the level's last node, both from 0.
    """
    for node in proof:
        if last == 0:
            raise Invalid("the proof is too long")
        is_left = bool(index & 1) or index == last
        yield is_left, node
        while is_left and index and not index & 1:  # no sibling on this level: the node is the last, on the left
            index, last = index >> 1, last >> 1
        index, last = index >> 1, last >> 1
    if last:
        raise Invalid("the proof is too short")


def root_of_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes]) -> bytes:
    """Return the root that a proof gives for a leaf's hash at an index from 0 (RFC 9162, 2.1.3.2). Raises Invalid."""
    if not 0 <= index < size:
        raise Invalid(f"there is no leaf {index} in a tree of {size}")
    root = leaf
    for is_left, node in _siblings(index, size - 1, proof):
        root = node_hash(node, root) if is_left else node_hash(root, node)
    return root


def check_consistency(old: int, old_root: bytes, new: int, new_root: bytes, proof: Sequence[bytes]) -> None:
    """Raise Invalid unless the tree of `old` events is the beginning of the tree of `new` (RFC 9162, 2.1.4.2)."""
    if old == new:
        if old_root != new_root or proof:
            raise Invalid(f"two trees of {old} events have different roots")
        return
    if not 0 < old < new or not proof:
        raise Invalid(f"no proof leads from {old} to {new}")
    nodes = list(proof) if old & (old - 1) else [old_root, *proof]
    index, last = old - 1, new - 1
    while index & 1:
        index, last = index >> 1, last >> 1
    first = second = nodes[0]
    for is_left, node in _siblings(index, last, nodes[1:]):
        first = node_hash(node, first) if is_left else first
        second = node_hash(node, second) if is_left else node_hash(second, node)
    if first != old_root or second != new_root:
        raise Invalid(f"the tree of {old} events is not the beginning of the tree of {new}")


# --- Checkpoints: C2SP signed-note and tlog-checkpoint


def read_checkpoint(note: str, key: str, *, verify: Any = None) -> Checkpoint:
    """Return a checkpoint signed by the key, NAME+HASH+KEY; `verify` may be a faster Ed25519. Raises Invalid."""
    name, key_id, public = read_key(key)
    try:
        text, signatures = note.split("\n\n", 1)
        lines = text.split("\n")
        origin, size, root = lines[0], int(lines[1]), base64.b64decode(lines[2], validate=True)
    except (IndexError, ValueError) as error:
        raise Invalid("this is no signed checkpoint") from error
    time = next((line[5:] for line in lines[3:] if line.startswith("time ")), "")
    branch, loss = _branch(lines[3:], time)
    for line in signatures.splitlines():
        signer, _, encoded = line.removeprefix("— ").rpartition(" ")
        try:
            signature = base64.b64decode(encoded, validate=True)
        except ValueError:
            continue
        if signer == name and signature[:4] == key_id:
            if not (verify or ed25519_verify)(public, (text + "\n").encode(), signature[4:]) or origin != name:
                raise Invalid(f"the signature of the checkpoint of {size} events is wrong")
            return Checkpoint(origin, size, root, time, branch, loss)
    raise Invalid(f"the checkpoint of {lines[1]} events is not signed by the log's key {name}")


_CONTINUES = re.compile(r"continues from (\d{1,18}), lost (\d{1,18})–(\d{1,18}): (.+)")


def _branch(lines: Sequence[str], time: str) -> "tuple[int, RecordedLoss | None]":
    """Return the branch of a checkpoint, and for the first checkpoint of a branch the recorded loss. Raises Invalid."""
    branches = [line[7:] for line in lines if line.startswith("branch ")]
    if not branches:
        return 0, None
    if len(branches) > 1 or not re.fullmatch("[1-9][0-9]{0,8}", branches[0]):
        raise Invalid("this is no checkpoint: its branch cannot be read")
    branch, match = int(branches[0]), next(filter(None, map(_CONTINUES.fullmatch, lines)), None)
    if match is None:
        return branch, None
    last_kept, first_lost, last_lost = map(int, match.group(1, 2, 3))
    if first_lost != last_kept + 1 or last_lost < first_lost:
        raise Invalid("this is no checkpoint: its line about a loss cannot be read")
    return branch, RecordedLoss(branch, last_kept, last_lost, match[4], time)


def loss_of(checkpoint: Checkpoint, losses: "Sequence[RecordedLoss]") -> "RecordedLoss | None":
    """Return the recorded loss of events that a checkpoint has signed, or None."""
    later = (loss for loss in losses if loss.branch > checkpoint.branch)
    return next((loss for loss in later if loss.last_kept < checkpoint.size <= loss.last_lost), None)


def read_key(key: str) -> "tuple[str, bytes, bytes]":
    """Return (name, key id, public key) of a verifier key. Raises Invalid."""
    try:
        name, key_hash, encoded = key.strip().split("+", 2)
        public = base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise Invalid("a verifier key must read NAME+HASH+KEY") from error
    if len(public) != 33 or public[0] != 1 or key_id_of(name, public[1:]).hex() != key_hash:
        raise Invalid("the verifier key must be copied whole: a part of it is missing or altered")
    return name, bytes.fromhex(key_hash), public[1:]


def key_id_of(name: str, public: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n\x01" + public).digest()[:4]


# --- Ed25519: RFC 8032, section 5.1.7, for verifying only

_P = 2**255 - 19
_Q = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _P - 2, _P) % _P


def _add(a: Any, b: Any) -> Any:
    p, q = (a[1] - a[0]) * (b[1] - b[0]) % _P, (a[1] + a[0]) * (b[1] + b[0]) % _P
    r, s = 2 * a[3] * b[3] * _D % _P, 2 * a[2] * b[2] % _P
    e, f, g, h = q - p, s - r, s + r, q + p
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _times(number: int, point: Any) -> Any:
    total = (0, 1, 1, 0)
    while number:
        total = _add(total, point) if number & 1 else total
        point, number = _add(point, point), number >> 1
    return total


def _point(encoded: bytes) -> Any:
    y = int.from_bytes(encoded, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    square = (y * y - 1) * pow(_D * y * y + 1, _P - 2, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * pow(2, (_P - 1) // 4, _P) % _P
    if y >= _P or (x * x - square) % _P or (x == 0 and sign):
        return None
    x = _P - x if x & 1 != sign else x
    return x, y, 1, x * y % _P


_BASE = _point((4 * pow(5, _P - 2, _P) % _P).to_bytes(32, "little"))


def ed25519_verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether the holder of the public key has signed the message."""
    if len(public) != 32 or len(signature) != 64:
        return False
    a, r, s = _point(public), _point(signature[:32]), int.from_bytes(signature[32:], "little")
    if a is None or r is None or s >= _Q:
        return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % _Q
    left, right = _times(s, _BASE), _add(r, _times(h, a))
    return not any((left[i] * right[2] - right[i] * left[2]) % _P for i in (0, 1))


STATEMENT = b"importledger statement\n"
"""First line of a statement's signed text, so that the signature is valid only for statements."""


def statement_text(statement: "dict[str, Any]") -> bytes:
    """Return the signed text: all members but `signature`, as JSON in ASCII with sorted names and no blanks."""
    signed = {name: value for name, value in statement.items() if name != "signature"}
    return STATEMENT + json.dumps(signed, sort_keys=True, separators=(",", ":")).encode()


def _distinct_members(pairs: "list[tuple[str, Any]]") -> "dict[str, Any]":
    """Return the members of a JSON object. Raises Invalid for a repeated member, which readers read differently."""
    if len(dict(pairs)) != len(pairs):
        raise Invalid("a member of an object must not be repeated")
    return dict(pairs)


def read_statement(text: str) -> "dict[str, Any]":
    """Return the members of a statement. Raises Invalid if a member is repeated or a required one is missing."""
    try:
        statement = json.loads(_refuse_many_values(text), object_pairs_hook=_distinct_members)
    except (ValueError, RecursionError) as error:
        raise Invalid("this is no certificate: it is not JSON") from error
    members = dict(statement) if isinstance(statement, dict) else {}
    if not all(isinstance(members.get(name), str) for name in ("checkpoint", "signature", "verifier_key")):
        raise Invalid("this is no certificate: it must have checkpoint, signature and verifier_key")
    return members


def check_statement(text: str, key: "str | None", *, verify: Any = None) -> "tuple[dict[str, Any], Checkpoint]":
    """Return the statement and its checkpoint. Raises Invalid unless the key has signed both (None: its own key)."""
    statement = read_statement(text)
    name, key_id, public = read_key(key := key or str(statement["verifier_key"]))
    try:
        signature = base64.b64decode(statement["signature"], validate=True)
        signed = statement_text(statement)
    except (ValueError, RecursionError) as error:
        raise Invalid("this is no certificate: its signature cannot be read") from error
    if signature[:4] != key_id:
        raise Invalid(f"the certificate is not signed by the log's key {name}")
    if not (verify or ed25519_verify)(public, signed, signature[4:]):
        raise Invalid("the signature of the certificate is wrong")
    return statement, read_checkpoint(statement["checkpoint"], key, verify=verify)


def _check_certificate(
    file: Path, key: "str | None", against: Sequence[str], check_sample: Any
) -> "tuple[list[str], list[str]]":
    if file.stat().st_size > MAX_MEMBER_BYTES:
        raise Invalid(f"a certificate must not be larger than {MAX_MEMBER_BYTES} bytes")
    if (content := file.read_bytes()).startswith(b"PK"):
        raise Invalid(f"{file} must be a whole zip file: it is damaged or its end is missing. Get it again")
    statement, newest = check_statement(content.decode(), key)
    kind = "sample" if "population" in statement else "certificate"
    confirmed, problems = [f"{kind}, {statement.get('signed_at')}: signed by {newest.origin}"], list[str]()
    confirmed.append(f"checkpoint of {newest.size} events, {newest.time}: signed by {newest.origin}")
    for note in against:
        with collecting(problems, "checkpoint (kept by you)"):
            old = read_checkpoint(note, key or statement["verifier_key"])
            if old.size != newest.size:
                raise Invalid(f"the {kind} says nothing about {old.size} events; `importledger verify` does")
            check_consistency(old.size, old.root, newest.size, newest.root, [])
            confirmed.append(f"checkpoint of {old.size} events (kept by you): the same")
    if kind == "sample":
        check_sample(file.parent, statement, newest, key or str(statement["verifier_key"]), confirmed, problems)
    return confirmed, problems


def check(proof: zipfile.ZipFile, key: "str | None", against: Sequence[str]) -> "tuple[list[str], list[str]]":
    """Return sentences on what was confirmed, and on problems. Raises Invalid if nothing can be checked."""
    confirmed, problems = list[str](), list[str]()
    _refuse_large(proof)
    try:
        names = [name for name in proof.namelist() if not name.startswith("payloads/")]
        texts = {name: _refuse_many_values(read_member(proof, name).decode()) for name in names}
        index = json.loads(texts["proof.json"], object_pairs_hook=_distinct_members)
        notes = {int(size): texts.pop(name) for size, name in index["checkpoints"].items()}  # each once
        lines = texts["events.ndjson"].split("\n")  # texts may hold other line ends
        events = [json.loads(line, object_pairs_hook=_distinct_members) for line in lines if line]
        inclusion = {int(p): [base64.b64decode(n) for n in nodes] for p, nodes in index["inclusion"].items()}
        consistency = {int(s): [base64.b64decode(n) for n in nodes] for s, nodes in index["consistency"].items()}
        newest_size, key = index["size"], key or texts["log.vkey"]
    except (KeyError, ValueError, UnicodeDecodeError, TypeError, AttributeError) as error:
        raise Invalid(f"this is no proof: {_reason(error)}") from error
    newest = read_checkpoint(notes[newest_size], key)
    known = {"README.txt", "log.vkey", "proof.json", "events.ndjson", *index["checkpoints"].values()}
    problems += [f"{name} does not belong to the proof" for name in names if name not in known]
    confirmed.append(f"checkpoint of {newest.size} events, {newest.time}: signed by {newest.origin}")
    for event in events:
        position = event.get("position", 0)
        name = f"event {event.get('version')} of {event.get('stream')} at position {position}"
        with collecting(problems, name):
            if more := sorted(set(event).difference(COLUMNS)):
                raise Invalid(f"{', '.join(more)} does not belong to it")
            root = root_of_inclusion(leaf_hash(leaf_of(event)), position - 1, newest.size, inclusion.get(position, []))
            if root != newest.root:
                raise Invalid("it differs from the event in the tree")
            confirmed.append(f"{name}: included")
    problems += _missing_events(events, inclusion)
    checkpoints: list[tuple[str, Checkpoint]] = []
    for source, note in [("", note) for note in notes.values()] + [(" (kept by you)", note) for note in against]:
        with collecting(problems, f"checkpoint{source}"):
            checkpoints.append((source, read_checkpoint(note, key)))
    in_proof = [old for source, old in checkpoints if not source and old.branch <= newest.branch]
    losses = [old.loss for old in in_proof if old.loss and old.size <= newest.size]
    confirmed += [f"checkpoint: {loss}" for loss in losses]
    for source, old in checkpoints:
        with collecting(problems, f"checkpoint{source}"):
            if loss := loss_of(old, losses):
                confirmed.append(f"checkpoint of {old.size} events{source}: {loss}")
                continue
            if old.size not in consistency and old.size != newest.size:
                raise Invalid(f"the proof says nothing about {old.size} events; ask for one with --against")
            check_consistency(old.size, old.root, newest.size, newest.root, consistency.get(old.size, []))
            confirmed.append(f"checkpoint of {old.size} events{source}: the beginning of the tree of {newest.size}")
    _check_payloads(proof, events, confirmed, problems)
    return confirmed, problems


def _refuse_large(proof: zipfile.ZipFile) -> None:
    """Raise Invalid for a proof that would need too much memory or time, or hides a file, before reading it."""
    names, end = Counter(proof.namelist()), cast("IO[bytes]", proof.fp)
    if wrong := [m.filename for m in proof.infolist() if names[m.filename] > 1 or m.compress_type > 8]:  # deflate
        raise Invalid(f"{wrong[0]} must not be repeated, and must be stored or compressed with deflate")
    end.seek(-22 - len(proof.comment), 2)
    if int.from_bytes(end.read(12)[10:], "little") != len(names):
        raise Invalid("the directory of the zip must list as many files as the end of the zip says")
    sizes = {member.filename: member.file_size for member in proof.infolist()}
    texts = sum(size for name, size in sizes.items() if not name.startswith("payloads/"))
    if len(sizes) > MAX_MEMBERS or max(texts, *sizes.values()) > MAX_MEMBER_BYTES or sum(sizes.values()) > MAX_BYTES:
        limits = f"{MAX_MEMBERS} files and {MAX_BYTES} bytes, and a file in it not more than {MAX_MEMBER_BYTES}"
        raise Invalid(f"a proof must not have more than {limits}")


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return a file of a zip, as many bytes as the zip says, of which `ZipFile.read` would decompress any number."""
    return archive.open(name).read(archive.getinfo(name).file_size)


def _refuse_many_values(text: str) -> str:
    """Return the text. Raises Invalid for a text whose JSON would need too much memory."""
    if sum(map(text.count, "[{,\n")) > MAX_VALUES:
        raise Invalid(f"a file must not have more than {MAX_VALUES} values")
    return text


def _missing_events(events: "list[dict[str, Any]]", inclusion: "dict[int, Any]") -> "Iterator[str]":
    """Yield a sentence on each kind of missing events: all events, earlier events of a stream, events of the index."""
    if not events:
        yield "a proof must hold at least one event"
    versions: dict[str, set[int]] = {}
    for event in events:
        if not isinstance(event["version"], int) or event["version"] < 1:
            raise Invalid("the version of an event must be a number from 1")
        versions.setdefault(event["stream"], set()).add(event["version"])
    for stream, present in sorted(versions.items()):
        if number := max(present) - len(present):
            gaps = itertools.islice((n for n in range(1, max(present)) if n not in present), MAX_LISTED)
            more = f" and {number - MAX_LISTED} more" if number > MAX_LISTED else ""
            yield f"{stream}: the events {list(gaps)}{more} were left out"
    if missing := sorted(set(inclusion) - {event.get("position") for event in events}):
        more = f" and {len(missing) - MAX_LISTED} more" if len(missing) > MAX_LISTED else ""
        yield f"the events at positions {', '.join(map(str, missing[:MAX_LISTED]))}{more} were left out"


def _check_payloads(proof: zipfile.ZipFile, events: "list[Any]", confirmed: "list[str]", problems: "list[str]") -> None:
    payloads = set(re.findall('"payload_sha256":"([0-9a-f]{64})"', " ".join(event["state"] for event in events)))
    for digest in (name[len("payloads/") :] for name in proof.namelist() if name.startswith("payloads/")):
        is_right = digest in payloads and hashlib.sha256(read_member(proof, f"payloads/{digest}")).hexdigest() == digest
        (confirmed if is_right else problems).append(f"payload {digest}: {'matches' if is_right else 'does not match'}")


def _reason(error: Exception) -> str:
    """Return the message of an error, without bytes of the file that the error may quote."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename} cannot be read: {error.strerror}"
    return str(error.args[0]) if isinstance(error, (Invalid, KeyError, ValueError)) and error.args else repr(error)


def run(check_sample: Any = None) -> int:
    """Check the file that the command line names, print the findings, and return the exit code."""
    parser = argparse.ArgumentParser(description="Check a proof, certificate or sample of the import ledger.")
    parser.add_argument("proof", help="the proof, a zip file; the certificate, or sample.json in the sample's folder")
    parser.add_argument("--key", metavar="VKEY", help="the verifier key, or a file with it, as the operator gave it")
    parser.add_argument("--against", action="append", default=[], help="a checkpoint that you have kept")
    arguments = parser.parse_args()
    try:
        key = key_argument(arguments.key) if arguments.key is not None else None
        against = [Path(name).read_text("utf-8") for name in arguments.against]
        if zipfile.is_zipfile(arguments.proof):
            with zipfile.ZipFile(arguments.proof) as proof:
                confirmed, problems = check(proof, key, against)
        else:
            confirmed, problems = _check_certificate(Path(arguments.proof), key, against, check_sample)
    except Exception as error:  # a file of unknown origin may cause any error
        print(f"NOT PROVED: {_printable(_reason(error))}", file=sys.stderr)
        return 1
    sys.stdout.writelines(f"{_printable(sentence)}\n" for sentence in confirmed)
    if key is None:
        problems.insert(0, "unknown signer: pass the operator's key with --key; the key in the file proves nothing")
    more = [f"{len(problems)} problems in all"] if len(problems) > MAX_PROBLEMS else []
    sys.stderr.writelines(f"NOT PROVED: {_printable(sentence)}\n" for sentence in problems[:MAX_PROBLEMS] + more)
    return 1 if problems else 0


def key_argument(argument: str) -> str:
    """Return the verifier key: the last word of the argument, or of the file with this name. Raises Invalid."""
    words = (Path(argument).read_text("utf-8") if Path(argument).is_file() else argument).split()
    if not words or "+" not in words[-1]:
        raise Invalid(f"--key must be a verifier key (NAME+HASH+KEY) or a file that holds one; {argument} is neither")
    return words[-1]


def _printable(sentence: str) -> str:
    """Return the first MAX_SENTENCE characters with control characters escaped, since the file may contain any text."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in sentence[:MAX_SENTENCE])


if __name__ == "__main__":
    sys.exit(run())
