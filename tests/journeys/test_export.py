"""A history is exported to a file and replayed with the current code and rules."""

import base64
import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from tests.support.make import an_account, changed, encoded
from tests.support.running import Importer, RunningService, cli, processed, wait_for

ENVIRONMENT = {"IMPORTLEDGER_LOG_LEVEL": "error"}


@pytest.fixture(scope="module")
def importer(service: RunningService) -> Importer:
    made = service.importer()
    for number in range(1, 6):
        assert made.client.create(encoded(an_account(made.supplier, number))).status == 201
    wait_for(lambda: processed(made) == 5, "the accounts exist")
    return made


@pytest.fixture
def exported(service: RunningService, importer: Importer, tmp_path: Path) -> Path:
    file = tmp_path / "history.ndjson.zst"
    output = service.cli("export", "--supplier", importer.supplier, "--payloads", "-o", str(file)).stdout
    assert "16 events and 5 payloads" in output
    return file


def lines(file: Path) -> list[Any]:
    with file.open("rb") as source:
        return [
            msgspec.json.decode(line) for line in zstandard.ZstdDecompressor().stream_reader(source).read().splitlines()
        ]


def rewritten(file: Path, entries: list[Any]) -> Path:
    file.write_bytes(zstandard.ZstdCompressor().compress(b"".join(encoded(entry) + b"\n" for entry in entries)))
    return file


def test_a_history_is_replayed_without_difference(exported: Path) -> None:
    output = cli("replay", str(exported), environment=ENVIRONMENT).stdout
    assert output == "16 events of 6 streams replayed, 5 payloads checked again: 0 would end differently.\n"


def test_what_was_sent_is_in_the_file_as_it_was_received(exported: Path, importer: Importer) -> None:
    bodies = [base64.b64decode(line["body"]) for line in lines(exported) if line["kind"] == "payload"]
    assert bodies == [encoded(an_account(importer.supplier, number)) for number in range(1, 6)]


@pytest.mark.promise("one-judge-api-worker")
def test_what_today_would_end_differently_is_named(exported: Path, importer: Importer) -> None:
    entries = lines(exported)
    wrong = encoded(changed(an_account(importer.supplier, 1), "999999.99", "transfer_balance"))
    first = next(entry for entry in entries if entry["kind"] == "payload")
    first |= {"body": base64.b64encode(wrong).decode(), "sha256": hashlib.sha256(wrong).hexdigest()}
    for entry in entries:
        if entry["kind"] == "event" and entry["stream"] == first["stream"] and "payload_sha256" in entry["state"]:
            entry["state"]["payload_sha256"] = first["sha256"]
    for entry in entries:
        if entry["kind"] == "event" and entry["topic"] == "import_processed.v1" and entry["stream"] != first["stream"]:
            entry["state"]["attempt"] = 3
            break
    ended = cli("replay", str(rewritten(exported, entries)), environment=ENVIRONMENT, check=False)
    assert ended.returncode == 1
    assert "today's rules refuse it" in ended.stdout
    assert "would be refused: CompleteImport" in ended.stdout
    assert "2 would end differently" in ended.stdout


def test_a_file_that_was_cut_off_is_refused(exported: Path) -> None:
    entries = lines(exported)
    for broken in (entries[:-1], [*entries[:3], *entries[4:]], entries[1:]):
        ended = cli("replay", str(rewritten(exported, broken)), environment=ENVIRONMENT, check=False)
        assert ended.returncode == 1
        assert "cut off" in ended.stderr or "no export" in ended.stderr
    exported.write_bytes(b"not zstandard")
    sentence = "must be a file that `importledger export` has written"
    assert sentence in cli("replay", str(exported), environment=ENVIRONMENT, check=False).stderr


def test_bounds_choose_a_part(service: RunningService, importer: Importer, exported: Path, tmp_path: Path) -> None:
    events = [line for line in lines(exported) if line["kind"] == "event"]
    part = tmp_path / "part.zst"
    first, last = events[2]["position"], events[4]["recorded_at"]
    service.cli("export", "--supplier", importer.supplier, "--from", str(first), "--to", last, "-o", str(part))
    found = [line["position"] for line in lines(part) if line["kind"] == "event"]
    assert found == [
        event["position"] for event in events if event["position"] >= first and event["recorded_at"] <= last
    ]
    assert not [line for line in lines(part) if line["kind"] == "payload"]
    assert cli("replay", str(part), environment=ENVIRONMENT).returncode == 0
