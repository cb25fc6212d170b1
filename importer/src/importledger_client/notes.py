"""Notes on a run in the working folder: its suppliers, mode and files."""

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from importledger_client.failures import is_of_failures
from importledger_client.sources import STDIN
from importledger_client.unfinished import write_whole

_FOLDER = ".importbook"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_ENDINGS = re.compile(r"(\.failures)?(\.(ndjson|jsonl|json|csv|tsv|txt|xlsx|parquet))?(\.(gz|zst))?$")


class Note(msgspec.Struct):
    """Note on one run."""

    run: str
    suppliers: list[str] = []
    mode: str = "create"
    files: list[str] = []
    mapping: str = ""
    pushed: list[str] = []
    pushed_mapping: str = ""
    """Files and mapping of the last push. `files` and `mapping` are those of the whole book."""
    supplier: str = ""
    """Supplier that was given for all accounts; "" if each account names its own."""


def save_note(note: Note, folder: Path) -> None:
    """Write a note. If the folder is not writable, no note is written."""
    with contextlib.suppress(OSError):
        (folder / _FOLDER).mkdir(exist_ok=True)
        write_whole(folder / _FOLDER / f"{note.run}.json", msgspec.json.encode(note) + b"\n")


def load_note(run: str, folder: Path) -> Note | None:
    try:
        return msgspec.json.decode((folder / _FOLDER / f"{run}.json").read_bytes(), type=Note)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def run_of_files(files: Sequence[str], folder: Path) -> str | None:
    """Return the run of the last push that created accounts from these files, or None."""
    found: list[tuple[float, str]] = []
    with contextlib.suppress(OSError):
        for path in (folder / _FOLDER).glob("*.json"):
            note = load_note(path.stem, folder)
            if note is not None and note.mode == "create" and note.files == list(files):
                found.append((path.stat().st_mtime, note.run))
    return max(found)[1] if found else None


def run_named_after(file: str, mode: str) -> str:
    """Return the default run of a file: the file's name, followed by the mode unless it is create."""
    stem = "stdin" if file == STDIN else _ENDINGS.sub("", Path(file).name)
    stem = _NOT_IN_NAMES.sub("-", stem).strip("-")
    stem = stem if stem.strip(".") else "book"  # . and .. are not names of runs
    suffix = "" if mode == "create" or is_of_failures(file) else "-" + mode.replace("_", "-")
    return stem[: 64 - len(suffix)] + suffix
