"""Readers of untrusted files, which run in a process with limits.

An altered copy of a file must be refused with a sentence, or mean the same as the file. Memory or CPU time beyond the
limits ends the process.
"""

import contextlib
import io
import resource
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from cli.backup import own_checkpoint
from cli.replay import replay as replay_verb
from cli.service.failures import failure_sentence
from eventstore.operations.backup import read_manifest
from eventstore.operations.export import PayloadLine, body_of, read_export
from eventstore.proof import sample_verifier, verifier
from eventstore.proof.archive import Archive
from eventstore.proof.checkpoints import read_note
from tests.support.sealed_log import KEY

MEMORY_BYTES = 1 << 30
"""Address space beyond that of the process before it reads anything. Half of it is the largest proof."""
PROCESSOR_S = 300
"""Processor time of all files together, in seconds."""
MAX_REFUSAL = 1_000_000
"""Characters of a refusal."""


def proof(file: Path) -> Any:
    """Return what an auditor's program prints. Raises Invalid where it does not end with 0."""
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["importledger-verify", str(file), "--key", KEY.verifier]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = sample_verifier.run()
    if code:
        raise verifier.Invalid(err.getvalue())
    return out.getvalue()


certificate = sample = proof
"""The same program checks a certificate, and a sample whose other files are as they were."""


def note(file: Path) -> Any:
    return verifier.read_checkpoint(read_note(file), KEY.verifier)


def archive(file: Path) -> Any:
    opened = Archive(file, [KEY.verifier])
    try:
        opened.check()
        return opened.contents, list(opened.events()), list(opened.payloads())
    finally:
        opened.close()


def export(file: Path) -> Any:
    return [(line, body_of(line)) if isinstance(line, PayloadLine) else line.recorded() for line in read_export(file)]


def replay(file: Path) -> Any:
    """Decisions may differ: an export is not signed, and may say anything."""
    ended = CliRunner().invoke(replay_verb, [str(file)])
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception


def manifest(file: Path) -> Any:
    """Of a backup whose other files are as they were."""
    own = own_checkpoint(file.parent)
    if own is None:
        raise verifier.Invalid("it is not signed, which `restore --verify` refuses")
    return read_manifest(file.parent), own


READERS: dict[str, Callable[[Path], Any]] = {
    "proof": proof, "certificate": certificate, "note": note, "archive": archive, "export": export, "replay": replay,
    "manifest": manifest, "sample": sample,
}  # fmt: skip


class Reader:
    """A process with limits that reads copies of a whole file."""

    def __init__(self, pool: ProcessPoolExecutor, kind: str, whole: Path) -> None:
        self._pool = pool
        pool.submit(_begin, kind, whole).result()

    def problem_of(self, file: Path) -> str:
        """Return what is wrong with how the file is read; "" for a refusal in a sentence, or for the same meaning."""
        try:
            return self._pool.submit(_judged, file).result()
        except BrokenProcessPool:
            return "the reader ended"


def _begin(kind: str, whole: Path) -> None:
    """Limit this process, which reads files of this kind from now on."""
    global _read, _meaning
    _read = READERS[kind]
    _meaning = _read(whole)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_BYTES, size + MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_S, PROCESSOR_S))


def _judged(file: Path) -> str:
    try:
        return "" if _read(file) == _meaning else "accepted, and means something else"
    except Exception as error:
        sentence = str(error) if isinstance(error, verifier.Invalid) else failure_sentence(error)
        if sentence is None or "MemoryError" in sentence:
            return traceback.format_exc()
        return "" if len(sentence) < MAX_REFUSAL else f"a refusal of {len(sentence)} characters"


_read: Callable[[Path], Any]
_meaning: Any
