"""The auditors' verifier with foreign files: it runs nothing in them, and its time and memory are bounded."""

import hashlib
import io
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore.aggregates import import_process
from eventstore.proof import sample_verifier, verifier
from eventstore.proof.proof import write_proof
from eventstore.proof.verifier import Invalid, check
from tests.support.auditors import BUILD, audited, build_zipapp
from tests.support.folders import ROOT
from tests.support.make import NOON, stage
from tests.support.sealed_log import KEY, OTHER_KEY, SUPPLIER, Log

HOSTILE = "import pathlib; pathlib.Path('ran').write_text('x'); print('everything holds')"


def proof_of(log: Log, external: str, *, payloads: bool = False) -> Path:
    """Return a proof of one account of the sealed log."""
    sealed, file = log.seal(), log.folder / "proof.zip"
    with psycopg.connect(log.urls.service) as connection:
        newest, streams = (sealed.checkpoint, sealed.note), [import_process.stream_of(SUPPLIER, external)]
        write_proof(connection, file, streams, newest, KEY.verifier, further_notes={}, payloads=payloads)
    return file


@pytest.fixture
def proof(log: Log) -> Path:
    return proof_of(log, "BENCH-0000001", payloads=True)


def refused(folder: Path, file: Path, *sentences: str) -> None:
    """Check a proof, which must be refused with these sentences."""
    result = audited(folder, str(file), "--key", KEY.verifier)
    assert result.returncode == 1
    for sentence in sentences:
        assert sentence in result.stderr
    assert "everything holds" not in result.stdout


def rewritten(source: Path, target: Path, changes: dict[str, bytes]) -> Path:
    """Return a copy of the proof in which these members are replaced or added."""
    with zipfile.ZipFile(source) as read, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as written:
        members = {name: read.read(name) for name in read.namelist()} | changes
        for name, content in members.items():
            written.writestr(name, content)
    return target


@pytest.mark.asvs("V1.3.2", "V5.3.1")
def test_a_proof_holds_no_program_and_one_that_does_runs_nothing(proof: Path, folder: Path) -> None:
    forged = rewritten(proof, folder / "forged.zip", {"verify.py": HOSTILE.encode(), "__main__.py": HOSTILE.encode()})
    refused(folder, forged, "verify.py does not belong to the proof")
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('{"', '{"paid":"in full","', "paid does not belong to it"),
        ('{"', '{"topic":"import_cancelled.v1","', "a member of an object must not be repeated"),
    ],
)
def test_an_event_of_a_proof_has_its_own_members_only(
    proof: Path, folder: Path, old: str, new: str, sentence: str
) -> None:
    with zipfile.ZipFile(proof) as opened:
        events = opened.read("events.ndjson").decode().replace(old, new, 1)
    forged = rewritten(proof, folder / "forged.zip", {"events.ndjson": events.encode()})
    refused(folder, forged, sentence)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_of_a_proof_must_not_be_repeated(proof: Path, folder: Path) -> None:
    with zipfile.ZipFile(proof, "a") as written:
        written.writestr("README.txt", "{}")
    result = audited(folder, str(proof), "--key", KEY.verifier)
    assert (result.stdout, "README.txt must not be repeated" in result.stderr) == ("", True), "nothing else is read"


def test_no_file_of_a_proof_can_be_hidden_in_its_directory(proof: Path, folder: Path) -> None:
    content = proof.read_bytes()
    entries = [match.start() for match in re.finditer(rb"PK\x01\x02", content)]
    assert len(entries) > 4
    for entry, hidden, after in zip(entries[:-1], entries[1:], [*entries[2:], len(content) - 22], strict=True):
        comment = (after - hidden).to_bytes(2, "little")  # the directory's length of a comment, which nobody reads
        (folder / "forged.zip").write_bytes(content[: entry + 32] + comment + content[entry + 34 :])
        refused(folder, folder / "forged.zip", "the directory of the zip must list as many files as")


def test_of_many_problems_the_first_are_printed(proof: Path, folder: Path) -> None:
    many = "".join(json.dumps({"stream": "x" * 5_000, "version": 1, "state": ""}) + "\n" for _ in range(2_000))
    forged = rewritten(proof, folder / "forged.zip", {"events.ndjson": many.encode()})
    result = audited(folder, str(forged), "--key", KEY.verifier)
    assert (result.returncode, "problems in all" in result.stderr) == (1, True)
    assert len(result.stderr) < 1_000_000


def test_a_proof_without_a_key_from_elsewhere_has_an_unknown_signer(proof: Path, folder: Path) -> None:
    result = audited(folder, str(proof))
    assert (result.returncode, "unknown signer" in result.stderr) == (1, True)
    assert audited(folder, str(proof), "--key", KEY.verifier).returncode == 0
    other = audited(folder, str(proof), "--key", OTHER_KEY.verifier)
    assert (other.returncode, "is not signed by the log's key" in other.stderr) == (1, True)


def test_a_key_may_stand_in_a_file(proof: Path, folder: Path) -> None:
    (folder / "monday.key").write_text(f"Verifier key: {KEY.verifier}\n")
    assert audited(folder, str(proof), "--key", "monday.key").returncode == 0
    assert audited(folder, str(proof), "--key", f"Verifier key: {KEY.verifier}").returncode == 0
    (folder / "empty.key").write_text("")
    assert "empty.key is neither" in audited(folder, str(proof), "--key", "empty.key").stderr


def test_a_proof_without_its_events_proves_nothing(proof: Path, folder: Path) -> None:
    empty = rewritten(proof, folder / "empty.zip", {"events.ndjson": b""})
    refused(folder, empty, "a proof must hold at least one event", "were left out")


def test_events_that_only_the_index_names_were_left_out(proof: Path, folder: Path) -> None:
    with zipfile.ZipFile(proof) as opened:
        lines = opened.read("events.ndjson").splitlines(keepends=True)
    position = json.loads(lines[-1])["position"]
    shorter = rewritten(proof, folder / "shorter.zip", {"events.ndjson": b"".join(lines[:-1])})
    refused(folder, shorter, f"the events at positions {position} were left out")


def test_a_damaged_file_is_named_without_its_bytes(proof: Path, folder: Path) -> None:
    (folder / "cut.zip").write_bytes(proof.read_bytes()[:-100])
    result = audited(folder, "cut.zip", "--key", KEY.verifier)
    assert result.stderr.startswith("NOT PROVED: cut.zip must be a whole zip file")
    binary = rewritten(proof, folder / "binary.zip", {"events.ndjson": b"\xff\xfe" * 50})
    assert (
        audited(folder, str(binary), "--key", KEY.verifier).stderr == "NOT PROVED: this is no proof: it is not UTF-8\n"
    )
    result = audited(folder, str(proof), "--key", "missing.key")
    assert "missing.key is neither" in result.stderr
    result = audited(folder, "missing.zip", "--key", KEY.verifier)
    assert result.stderr == "NOT PROVED: missing.zip cannot be read: No such file or directory\n"


@pytest.mark.asvs("V1.4.2")
def test_a_version_that_no_event_has_takes_neither_memory_nor_time(proof: Path, folder: Path) -> None:
    with zipfile.ZipFile(proof) as opened:
        lines = [json.loads(line) for line in opened.read("events.ndjson").decode().split("\n") if line]
    for version in (400_000_000, 10**30, 0, -1, "7", None, 1.5, [1]):
        lines[-1]["version"] = version
        events = "".join(json.dumps(line) + "\n" for line in lines).encode()
        forged = rewritten(proof, folder / "forged.zip", {"events.ndjson": events})
        result = audited(folder, str(forged), "--key", KEY.verifier)
        assert (result.returncode, "NOT PROVED" in result.stderr) == (1, True), version
        assert len(result.stderr) < 10_000


def test_a_proof_that_is_larger_than_any_is_not_read(proof: Path, folder: Path) -> None:
    bomb = rewritten(proof, folder / "bomb.zip", {"payloads/x": b"\0" * (verifier.MAX_MEMBER_BYTES + 1)})
    assert bomb.stat().st_size < 1_000_000
    refused(folder, bomb, "and a file in it not more than")
    many = rewritten(proof, folder / "many.zip", {f"payloads/{n}": b"" for n in range(verifier.MAX_MEMBERS + 1)})
    refused(folder, many, "must not have more than")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_proof_is_compressed_with_deflate_only(proof: Path, folder: Path, method: int) -> None:
    """Of other formats, Python decompresses a few kilobytes to any size at once."""
    other = folder / "other.zip"
    with zipfile.ZipFile(proof) as read, zipfile.ZipFile(other, "w", method) as written:
        for name in read.namelist():
            written.writestr(name, read.read(name))
    refused(folder, other, "must be stored or compressed with deflate")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_findings_are_printed_in_any_encoding(log: Log, monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    external = "Łódź-1"
    with log.ledger() as ledger:
        ledger.execute(import_process.stream_of(SUPPLIER, external), stage(), at=NOON, by="t")
    monkeypatch.setattr(sys, "argv", ["importledger-verify", str(proof_of(log, external)), "--key", KEY.verifier])
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    assert sample_verifier.run() == 0
    sys.stdout.seek(0)
    assert "\\u0141" in sys.stdout.read()


@given(
    st.dictionaries(st.sampled_from(["proof.json", "events.ndjson", "log.vkey"]), st.binary(max_size=200), min_size=1)
)
def test_any_bytes_in_a_proof_are_refused_in_a_sentence(members: dict[str, bytes]) -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as written:
        for name, content in members.items():
            written.writestr(name, content)
    with zipfile.ZipFile(held) as opened, pytest.raises(Invalid):
        check(opened, KEY.verifier, [])


def test_texts_with_other_line_ends_keep_their_proof(log: Log, folder: Path) -> None:
    external = "A\u2028B\u2029C\u0085D"
    with log.ledger() as ledger:
        ledger.execute(import_process.stream_of(SUPPLIER, external), stage(), at=NOON, by="t")
    result = audited(folder, str(proof_of(log, external)), "--key", KEY.verifier)
    assert (result.returncode, result.stderr) == (0, "")


def test_the_wheel_for_auditors_has_the_same_modules_as_the_zipapp(folder: Path) -> None:
    subprocess.run([sys.executable, str(BUILD), str(folder)], check=True)
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(folder / "importledger-verify.pyz") as zipapp, zipfile.ZipFile(wheel) as built:
        modules = [name for name in zipapp.namelist() if name != "__main__.py"]
        assert len(modules) == 2
        assert [built.read(name) for name in modules] == [zipapp.read(name) for name in modules]
        entry_points = next(name for name in built.namelist() if name.endswith("entry_points.txt"))
        assert b"importledger_verify_sample:run" in built.read(entry_points)
    sums = (folder / "importledger-verify.SHA256SUMS").read_text()
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() in sums


def test_the_verifier_is_the_same_bytes_everywhere_and_the_guide_has_its_digest(folder: Path) -> None:
    built = build_zipapp(folder).read_bytes()
    assert built == build_zipapp(folder).read_bytes()
    guide = (ROOT / "docs" / "how-to" / "check-a-proof.md").read_text()
    [digest] = re.findall(r"^([0-9a-f]{64})$", guide, re.M)
    assert digest == hashlib.sha256(built).hexdigest(), "build it anew: python deploy/verifier/build.py dist"
