"""Check a sample of a run: the draw, the files and the proofs. The standard library and `verifier.py` only.

    importledger-verify FOLDER/sample.json --key VKEY [--against CHECKPOINT]

A sample is a statement that the ledger has signed, with files beside it. The accounts of a sample are drawn by the hash
of the checkpoint's root, a seed and the position of the account's staging, so nobody can choose accounts. This program
repeats the draw.
"""

import hashlib
import heapq
import io
import json
import re
import sys
import zipfile
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eventstore.proof.verifier import MAX_MEMBER_BYTES, Checkpoint, Invalid, check, collecting, read_member
from eventstore.proof.verifier import run as run_with

DRAW = b"importledger sample\n"
"""Beginning of the text whose hash gives an account its place in the draw.

After it, the text has the root (32 bytes), the seed (UTF-8) and the position of the account's staging (8 bytes).
"""
POPULATION = "population.csv"
"""File beside a sample with a line POSITION;STRATUM for each account of the run, in the order of positions."""
_BLOCK_BYTES = 1_000_000
"""Bytes of a file that are read at a time."""
_SAMPLE_FILE = re.compile(r"[a-z]{1,20}\.[a-z]{1,4}")


def draw(root: bytes, seed: str, population: "Mapping[str, Sequence[int]]", size: int) -> "list[tuple[int, str]]":
    """Return (position, stratum) of the drawn accounts, in the order of their hashes.

    `population` has the positions of all accounts by stratum. Raises Invalid if `size` is less than the strata.
    """
    before, sample = DRAW + root + seed.encode(), list[tuple[bytes, int, str]]()
    for stratum, share in shares({name: len(positions) for name, positions in population.items()}, size).items():
        hashes = ((hashlib.sha256(before + p.to_bytes(8, "big")).digest(), p, stratum) for p in population[stratum])
        sample += heapq.nsmallest(share, hashes)
    return [(position, stratum) for _, position, stratum in sorted(sample)]


def shares(numbers: "Mapping[str, int]", size: int) -> "dict[str, int]":
    """Return the number of drawn accounts of each stratum, `size` in all, from the number of its accounts.

    Each stratum gets one account. Further accounts are divided in proportion to the remaining accounts of the strata,
    by the largest remainder. Raises Invalid.
    """
    total, least = sum(numbers.values()), len(numbers)
    further, spare = min(size, total) - least, total - least
    if further < 0 or 0 in numbers.values():
        raise Invalid("a sample must have an account of each stratum, and no stratum may be empty")
    parts = {name: divmod(further * (number - 1), max(spare, 1)) for name, number in numbers.items()}
    rest = further - sum(whole for whole, _ in parts.values())
    first = sorted(parts, key=lambda name: (-parts[name][1], name))[:rest]
    return {name: 1 + whole + (name in first) for name, (whole, _) in parts.items()}


def read_population(folder: Path, statement: "Mapping[str, Any]", size: int) -> "dict[str, array[int]]":
    """Return the positions by stratum from which a sample was drawn.

    Raises Invalid unless the file is the signed file, with increasing positions up to `size`, and the sample's number
    of positions. The file is read twice: its lines count only if they were signed.
    """
    _check_sample_file(folder, statement, POPULATION)
    population: dict[str, array[int]] = {}
    last, number, digest = 0, 0, hashlib.sha256()
    try:
        with (folder / POPULATION).open("rb") as lines:
            for line in lines:
                digest.update(line)
                position, _, stratum = line.decode().rstrip("\n").partition(";")
                if not last < int(position) <= size:
                    raise Invalid(f"{POPULATION}: positions must increase up to {size}: {position} does not")
                last, number = int(position), number + 1
                population.setdefault(stratum, array("Q")).append(last)
    except OSError as error:
        raise Invalid(f"{POPULATION} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Invalid(f"{POPULATION} must have lines POSITION;STRATUM") from error
    if digest.hexdigest() != statement["files"][POPULATION]:
        raise Invalid(f"{POPULATION} must not change while it is read")
    if number != statement["population"]:
        raise Invalid(f"{POPULATION} must have as many lines as the sample says: {statement['population']}")
    return population


def _check_sample_file(folder: Path, statement: "Mapping[str, Any]", name: str) -> None:
    """Raise Invalid unless the file beside a sample is the file that was signed."""
    digest = hashlib.sha256()
    if not _SAMPLE_FILE.fullmatch(name):
        raise Invalid("a file of a sample must have a plain name")
    try:
        if (folder / name).stat().st_size > MAX_MEMBER_BYTES or not (folder / name).is_file():
            raise Invalid(f"{name} must be a file of at most {MAX_MEMBER_BYTES} bytes")
        with (folder / name).open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
    except OSError as error:
        raise Invalid(f"{name} cannot be read: {error.strerror}") from error
    if digest.hexdigest() != statement["files"].get(name):
        raise Invalid(f"{name} is not the file that was signed")


def sample_proof(number: int) -> str:
    """Return the file name of an account's proof, by the account's number in the draw, from 1."""
    return f"proofs/{number:03}.zip"


def check_sample(
    folder: Path,
    statement: "dict[str, Any]",
    newest: Checkpoint,
    key: str,
    confirmed: "list[str]",
    problems: "list[str]",
) -> None:
    """Check draw, files and proofs of a sample whose signature was checked before.

    Appends a sentence to `confirmed` for each check that passes, and to `problems` for each that fails. Raises Invalid
    if the statement is not a sample, or if other accounts than those of the draw were chosen.
    """
    try:
        supplier, run, seed, size = (statement[name] for name in ("import_supplier", "run", "seed", "size"))
        accounts = [(account["position"], account["stratum"]) for account in statement["accounts"]]
        numbers = [account["external_account_number"] for account in statement["accounts"]]
        files = sorted(statement["files"])
        population = read_population(folder, statement, newest.size)
        drawn = draw(newest.root, seed, population, size)
    except (KeyError, TypeError, AttributeError) as error:
        raise Invalid("this is no sample: a member is missing or of another kind") from error
    if drawn != accounts:
        raise Invalid("the accounts of the sample must be those of the draw; others were chosen")
    confirmed.append(
        f"draw: {len(drawn)} of {statement['population']} in run {run} of {supplier}, seed {seed!r}: the same"
    )
    counts = Counter(stratum for _, stratum in drawn)
    confirmed += [f"stratum {name}: {counts[name]} of {len(population[name])}" for name in population if name]
    for name in files:
        with collecting(problems, "sample"):
            _check_sample_file(folder, statement, name)
            confirmed.append(f"{name}: the file that was signed")
    for index, ((position, _), number) in enumerate(zip(drawn, numbers), 1):  # noqa: B905 - runs on Python 3.9
        name = sample_proof(index)
        with collecting(problems, name):
            stream = f"import/{supplier}/{number}"
            staged_by, further = _check_sample_proof(folder / name, statement["checkpoint"], key, position, stream)
            problems += [f"{name}: {sentence}" for sentence in further]
            other = "" if staged_by == run else f" by run {staged_by}" if staged_by else " without a run"
            if not further:
                confirmed.append(f"{name}: account {number}, staged at position {position}{other}: proved")


def _check_sample_proof(file: Path, checkpoint: str, key: str, position: int, stream: str) -> "tuple[str, list[str]]":
    """Return the run that staged the account at this position, and the problems of its proof.

    Raises Invalid unless the proof has such an event.
    """
    try:
        with zipfile.ZipFile(file) as proof:
            _, problems = check(proof, key, [checkpoint])
            lines = read_member(proof, "events.ndjson").decode().split("\n")
    except OSError as error:
        raise Invalid(f"it cannot be read: {error.strerror}") from error
    except zipfile.BadZipFile as error:
        raise Invalid("it must be a whole zip file") from error
    for event in (json.loads(line) for line in lines if line):
        if (event["position"], event["stream"], event["topic"]) == (position, stream, "import_staged.v1"):
            return str(json.loads(event["state"]).get("run", "")), problems
    raise Invalid(f"it must prove that {stream} was staged at position {position}")


def run() -> int:
    """Check the proof, certificate or sample that the command line names. Return the exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a text in the file may have any letter
    return run_with(check_sample)


if __name__ == "__main__":
    sys.exit(run())
