"""Statements are checked with the log's key alone, and altered ones are refused."""

import asyncio
import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from click.testing import CliRunner

from cli.verify import verify
from eventstore.clock import now
from eventstore.errors import StoreUnavailable
from eventstore.log.authority import AuthorityKey
from eventstore.proof import verifier
from eventstore.proof.checkpoints import LogKey
from eventstore.proof.statement import (
    StatementRefused,
    check_statement,
    sign_statement,
    signed_statement,
    waiting_statements,
)
from eventstore.proof.verifier import Invalid, read_checkpoint
from tests.support.make import NOON
from tests.support.sealed_log import KEY, OTHER_KEY, Log, find
from tests.support.threads import running
from workers.followers.sealer import Sealer

ROOT = bytes(32)
AUTHORITY = AuthorityKey("r" * 32)
BODY = {"run": "Nordwind März", "accounts": 1000, "sums": {"balances": "-12.30", "readings": "7"}, "is_balanced": True}


def a_statement(key: LogKey = KEY) -> dict[str, Any]:
    return sign_statement(BODY, key, key.sign(600, ROOT, NOON), at=NOON)


def test_a_statement_is_the_body_with_the_checkpoint_and_a_signature() -> None:
    statement = a_statement()
    assert {name: statement[name] for name in BODY} == BODY
    assert set(statement) - set(BODY) == {"signed_at", "checkpoint", "verifier_key", "signature"}
    assert check_statement(json.dumps(statement, indent=2), [KEY.verifier]).size == 600
    assert check_statement(statement, [OTHER_KEY.verifier, KEY.verifier]).size == 600


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"accounts": 1001}, "signature of the certificate is wrong"),
        ({"more": 1}, "signature of the certificate is wrong"),
        ({"sums": {}}, "signature of the certificate is wrong"),
        ({"signed_at": "2030-01-01T00:00:00Z"}, "signature of the certificate is wrong"),
        ({"checkpoint": KEY.sign(601, ROOT, NOON)}, "signature of the certificate is wrong"),
        ({"signature": OTHER_KEY.signature(b"x")}, "not signed by the log's key"),
        ({"signature": "?"}, "cannot be read"),
        ({"signature": None}, "this is no certificate"),
    ],
)
def test_a_changed_statement_is_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Invalid, match=sentence):
        check_statement(a_statement() | change, [KEY.verifier])


def test_another_keys_statement_is_refused_though_it_brings_its_key() -> None:
    forged = a_statement(OTHER_KEY)
    verifier.check_statement(json.dumps(forged), None)  # without a key, its own key is used
    with pytest.raises(Invalid, match="not signed by the log's key"):
        check_statement(forged, [KEY.verifier])
    stolen = sign_statement(BODY, KEY, OTHER_KEY.sign(600, ROOT, NOON), at=NOON)
    with pytest.raises(Invalid, match="is not signed by the log's key"):
        check_statement(stolen, [KEY.verifier])


def test_a_member_that_is_there_twice_is_refused() -> None:
    text = json.dumps(a_statement()).replace('"accounts": 1000', '"accounts": 9, "accounts": 1000')
    with pytest.raises(Invalid, match="must not be repeated"):
        check_statement(text, [KEY.verifier])


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 100_000, '{"a": NaN}', '"x"'])
def test_what_is_no_certificate_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        check_statement(text, [KEY.verifier])


@pytest.mark.parametrize("body", [{"sum": 1.5}, {"list": [{"a": 0.1}]}, {"signature": "x"}, {"checkpoint": ""}])
def test_floats_and_reserved_names_are_not_signed(body: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="A statement"):
        sign_statement(body, KEY, KEY.sign(1, ROOT, NOON), at=NOON)


def test_a_statement_is_no_checkpoint_and_a_checkpoint_no_statement() -> None:
    statement = a_statement()
    text = verifier.statement_text(statement).decode()
    with pytest.raises(Invalid):
        read_checkpoint(f"{text}\n\n— {KEY.name} {statement['signature']}\n", KEY.verifier)
    with pytest.raises(Invalid):
        check_statement(KEY.sign(600, ROOT, NOON), [KEY.verifier])


@pytest.mark.slow
def test_the_program_of_a_proof_checks_certificates_alone(folder: Path) -> None:
    file = folder / "certificate.json"
    command = [sys.executable, "-I", "-S", verifier.__file__, str(file)]

    def checked(statement: dict[str, Any], *arguments: str) -> subprocess.CompletedProcess[str]:
        file.write_text(json.dumps(statement, indent=1), "utf-8")
        return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, env={}, timeout=60)

    holds = checked(a_statement(), "--key", KEY.verifier)
    assert (holds.returncode, holds.stderr) == (0, "")
    assert "certificate, 2026-" in holds.stdout
    assert "checkpoint of 600 events" in holds.stdout
    unknown = checked(a_statement())
    assert (unknown.returncode, "unknown signer" in unknown.stderr) == (1, True)
    for statement in (a_statement() | {"accounts": 1}, a_statement(OTHER_KEY)):
        refused = checked(statement, "--key", KEY.verifier)
        assert (refused.returncode, "NOT PROVED" in refused.stderr) == (1, True)


def test_the_sealer_signs_what_is_asked_for_with_a_checkpoint_of_everything(log: Log) -> None:
    log.add(301, 310)
    with log.ledger() as ledger:
        with pytest.raises(StoreUnavailable, match="is a relay running"):
            asyncio.run(signed_statement(ledger, AUTHORITY, BODY, within_s=0.2))
        with running(Sealer(ledger, KEY, log.outside, AUTHORITY, every_s=3600).start):
            statement = asyncio.run(signed_statement(ledger, AUTHORITY, BODY))
            assert check_statement(statement, [KEY.verifier]).size == 630
            log.cut(300)
            with pytest.raises(StatementRefused, match="TRUNCATED: the log has 300 events"):
                asyncio.run(signed_statement(ledger, AUTHORITY, BODY))
    assert log.admin.execute("SELECT count(*) FROM statement_requests").fetchone() == (0,)


def test_verify_takes_certificates_and_compares_the_log_with_their_checkpoints(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    find(log, monkeypatch)
    file, altered = log.folder / "good.json", log.folder / "altered.json"
    statement = sign_statement(BODY, KEY, log.seal().note, at=now())
    file.write_text(json.dumps(statement))
    altered.write_text(json.dumps(statement | {"accounts": 1}))
    result = CliRunner().invoke(verify, [str(file)])
    assert (result.exit_code, "good.json is signed with the log's key" in result.output) == (0, True), result.output
    result = CliRunner().invoke(verify, [str(altered)])
    assert (result.exit_code, "NOT SIGNED  " in result.output) == (1, True), result.output
    assert "the log matches its signatures, but a certificate does not." in result.output
    other = KEY.sign(600, ROOT, NOON)
    file.write_text(json.dumps(sign_statement(BODY, KEY, other, at=now())))
    result = CliRunner().invoke(verify, [str(file)])
    assert (result.exit_code, "REWRITTEN" in result.output) == (1, True), result.output


@pytest.mark.promise("authority-outside-database")
def test_a_statement_that_only_the_database_asks_for_is_not_signed(log: Log) -> None:
    """The service's database role can insert a request, and repeat one with another id or time."""
    insert = "INSERT INTO statement_requests (id, body, requested_at, mac) VALUES (%s, %s, %s, %s)"
    body, at = json.dumps(BODY), now()
    authentic, old, long_ago = uuid4(), uuid4(), at - timedelta(minutes=11)
    mac = AUTHORITY.mac("statement", str(authentic), body, at)
    old_mac = AUTHORITY.mac("statement", str(old), body, long_ago)
    forged = [
        (uuid4(), body, at, ""),
        (uuid4(), body, at, mac),
        (old, body, long_ago, old_mac),
        (old, body, at, old_mac),
    ]
    for row in [(authentic, body, at, mac), *forged]:
        with log.ledger() as ledger, ledger.connection() as connection:
            connection.execute(insert, row)
            Sealer(ledger, KEY, log.outside, AUTHORITY, every_s=3600).seal(waiting_statements(connection))
            left = connection.execute("DELETE FROM statement_requests RETURNING signed, refusal").fetchall()
        signed = [bool(row["signed"]) for row in left]
        assert signed == ([True] if row[0] == authentic else [] if row[2] == long_ago else [False])
