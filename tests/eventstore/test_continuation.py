"""A log that has lost its end is continued only openly, and verification reports the loss from then on."""

import json
import re
import subprocess
import sys

import psycopg
import pytest
from click.testing import CliRunner, Result

from cli.main import importledger
from eventstore.errors import OperatorError
from eventstore.proof import verifier
from eventstore.proof.sealing import Sealed, SealRefused, continue_from, sign_snapshot
from eventstore.proof.verification import CheckpointNote, verify_events
from eventstore.proof.verifier import RecordedLoss, read_checkpoint
from tests.support.make import NOON
from tests.support.sealed_log import KEY, SUPPLIER, Log, assert_found, edited, find

REASON = "failover of the primary, 2026-11-21"
TIME = f"{NOON:%Y-%m-%dT%H:%M:%SZ}"


def continued(log: Log, position: int = 450, reason: str = REASON) -> Sealed:
    with psycopg.connect(log.urls.service, autocommit=True) as connection:
        return continue_from(connection, KEY, log.outside, position, reason, at=NOON)


def failed_over(log: Log) -> None:
    """Leave the 450 of 600 events that the standby had, and add others."""
    log.cut(450)
    log.add(1001, 1010)


def recorded_losses(log: Log, *kept: CheckpointNote) -> list[str]:
    with psycopg.connect(log.urls.service) as connection:
        notes = [CheckpointNote("inside", note) for _, note in log.checkpoints()]
        notes += [CheckpointNote(source, note) for source, note in log.outside.notes()]
        found = verify_events(connection, [KEY.verifier], [*notes, *kept], is_full=True)
    assert found.problems == []
    return found.continued


@pytest.mark.promise("seal-continue-n-reason")
def test_a_log_that_lost_its_end_is_signed_only_openly_and_verify_tells_it(log: Log) -> None:
    lost = CheckpointNote("kept by an auditor", log.seal().note)
    failed_over(log)
    with pytest.raises(SealRefused, match=r"480 events, and .* 600\. If these .* seal --continue-from"):
        log.seal()
    sealed = continued(log)
    assert f"\ncontinues from 450, lost 451–600: {REASON}\n" in sealed.note
    assert (sealed.checkpoint.size, sealed.checkpoint.branch) == (480, 1)
    [sentence] = recorded_losses(log, lost)
    assert sentence.startswith(f"CONTINUED  since {sealed.checkpoint.time} the log continues from 450, lost 451–600: ")
    assert "600 events (kept by an auditor)" in sentence
    assert log.problems(with_first=True) == []
    with psycopg.connect(log.urls.service) as connection:  # a backup belongs to the branch
        assert read_checkpoint(sign_snapshot(connection, KEY, at=NOON), KEY.verifier).branch == 1


@pytest.mark.promise("seal-continue-n-reason")
def test_the_continued_log_is_sealed_and_told_from_then_on(log: Log) -> None:
    failed_over(log)
    continued(log)
    for number in range(10, 60, 10):  # past the sizes that were signed before the loss
        log.add(2000 + number, 2009 + number)
        assert log.seal().checkpoint == log.seal().checkpoint
    assert log.seal().checkpoint.size == 630
    assert len(recorded_losses(log)) == 1
    assert log.problems() == []
    assert log.outside.ends(since=0) == {0: 600, 1: 630}


def test_what_the_checkpoints_contradict_is_not_signed(log: Log) -> None:
    failed_over(log)
    tiles = log.admin.execute("SELECT level, index, hashes FROM log_tiles").fetchall()
    sentences = {
        299: "contains the signed checkpoint of 300 events: --continue-from must be 300 or later",
        481: "The log has 480 events: it cannot continue from position 481",
    }
    for position, sentence in sentences.items():
        with pytest.raises(SealRefused, match=sentence):
            continued(log, position)
    assert log.admin.execute("SELECT level, index, hashes FROM log_tiles").fetchall() == tiles


def test_an_altered_log_is_not_continued_from_after_the_change(log: Log) -> None:
    edited("caused_by", "'nobody'")(log)
    with pytest.raises(
        SealRefused, match="does not contain the signed checkpoint of 300 events: --continue-from must be"
    ):
        continued(log, 450)


def test_a_log_that_lost_nothing_is_not_continued(log: Log) -> None:
    with pytest.raises(SealRefused, match="nothing is lost"):
        continued(log)
    failed_over(log)
    continued(log)
    with pytest.raises(SealRefused, match="nothing is lost"):
        continued(log)


def test_what_is_altered_after_the_loss_is_found_and_without_the_continuation_the_loss_itself(log: Log) -> None:
    """Below the sizes that were lost, too."""
    failed_over(log)
    continued(log)
    with log.admin.transaction(force_rollback=True):
        log.admin.execute("UPDATE events SET caused_by = 'nobody' WHERE position = 470")
        assert_found(log.problems(), r"ALTERED  position 470 .*first checkpoint that disagrees: 480 events")
    log.admin.execute("DELETE FROM log_checkpoints WHERE branch = 1")
    for name in ("00000000000000000480.1.note", "continued.1.note"):
        (log.folder / "outside" / name).unlink()
    assert_found(log.problems(), r"TRUNCATED  the log has 480 events, a signed checkpoint of 600")


def test_the_former_primary_is_not_sealed_when_it_comes_back(log: Log) -> None:
    log.admin.execute("CREATE TABLE former AS SELECT * FROM events")
    log.admin.execute("CREATE TABLE former_checkpoints AS SELECT * FROM log_checkpoints")
    failed_over(log)
    continued(log)
    log.admin.execute("TRUNCATE events, log_tiles, log_checkpoints")
    log.admin.execute("INSERT INTO events SELECT * FROM former")
    log.admin.execute("INSERT INTO log_checkpoints SELECT * FROM former_checkpoints")
    with pytest.raises(SealRefused, match=r"was continued elsewhere after a loss .*Is this the former primary"):
        log.seal()


def test_a_former_primary_that_goes_on_signing_is_noticed(log: Log) -> None:
    failed_over(log)
    continued(log)
    log.outside.keep(601, KEY.sign(601, bytes(32), NOON))
    with pytest.raises(SealRefused, match="Another server continues the log from before the loss"):
        log.seal()
    assert_found(log.problems(), r"TRUNCATED  .*601 exists")


def test_a_second_loss_is_a_second_branch(log: Log) -> None:
    failed_over(log)
    continued(log)
    log.add(2001, 2010)
    log.seal()
    log.admin.execute("DELETE FROM log_checkpoints WHERE size > 480")
    log.admin.execute("DELETE FROM events WHERE position > 490")
    log.admin.execute("DELETE FROM payloads WHERE stream NOT IN (SELECT stream FROM events)")
    with pytest.raises(SealRefused, match="TRUNCATED"):
        log.seal()
    sealed = continued(log, 485, "again")
    assert (sealed.checkpoint.branch, sealed.checkpoint.loss) == (2, RecordedLoss(2, 485, 510, "again", TIME))
    first, second = recorded_losses(log)
    assert REASON in first
    assert "the log continues from 485, lost 486–510: again; checkpoints of lost events: 510 events" in second
    log.add(3001, 3010)
    assert log.seal().checkpoint.branch == 2
    assert log.problems() == []


@pytest.mark.parametrize(
    "line",
    [
        "branch 0",
        "branch x",
        "branch 1\\nbranch 2",
        "branch 1\\ncontinues from 5, lost 5–9: x",
        "branch 1\\ncontinues from 5, lost 6–5: x",
    ],
)
def test_a_branch_that_makes_no_sense_is_no_checkpoint(line: str) -> None:
    note = KEY.sign(5, bytes(32), NOON, continues=line)
    with pytest.raises(verifier.Invalid, match="this is no checkpoint"):
        read_checkpoint(note, KEY.verifier)


def invoked(*arguments: str) -> Result:
    result = CliRunner().invoke(importledger, arguments)
    assert result.exception is None or isinstance(result.exception, (SystemExit, OperatorError)), result.exception
    return result


@pytest.mark.promise("seal-continue-n-reason")
def test_the_verbs_and_the_program_of_a_proof_tell_it(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    find(log, monkeypatch)
    kept, lost, proof = (log.folder / name for name in ("kept.note", "lost.note", "x.zip"))
    kept.write_text(log.first_checkpoint.note)
    lost.write_text(log.seal().note)
    failed_over(log)
    assert invoked("seal", "--continue-from", "450").exit_code == 2
    for reason in ("", "two\x1b[2J", "x" * 600):
        assert invoked("seal", "--continue-from", "450", "--reason", reason).exit_code == 2
    signed = invoked("seal", "--continue-from", "450", "--reason", f"{REASON}\n")
    assert (signed.exit_code, f"continues from 450, lost 451–600: {REASON}" in signed.output) == (0, True)
    verified = invoked("verify", "--against", str(kept), "--against", str(lost))
    assert (verified.exit_code, "CONTINUED  since" in verified.output) == (0, True), verified.output
    assert f"lost 451–600: {REASON}" in verified.output
    assert json.loads(invoked("verify", "--json").stdout)["continued"][0].startswith("CONTINUED  since")
    against = ["--against", str(kept), "--against", str(lost)]
    made = invoked("proof", SUPPLIER, "BENCH-0000001", "-o", str(proof), *against)
    assert made.exit_code == 0, (made.output, made.exception)
    command = [sys.executable, "-I", "-S", verifier.__file__, str(proof), "--key", KEY.verifier, *against]
    checked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (checked.returncode, checked.stderr) == (0, ""), checked
    assert re.search(r"checkpoint of 600 events \(kept by you\): since .*Z the log continues from 450", checked.stdout)
    assert "checkpoint of 300 events (kept by you): the beginning of the tree of 480" in checked.stdout
