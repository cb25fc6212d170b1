"""The verb `verify` while the log grows."""

from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from cli.verify import verify
from eventstore.proof.checkpoints import CheckpointCopies
from tests.support.sealed_log import ACCOUNTS, KEY, OTHER_KEY, Log, find


@pytest.mark.parametrize("options", [[], ["--all"]])
def test_what_is_appended_and_sealed_meanwhile_is_no_truncation(
    log: Log, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    notes = CheckpointCopies.notes

    def sealed_at_that_moment(outside: CheckpointCopies) -> Iterator[tuple[str, str]]:
        log.add(ACCOUNTS + 1, ACCOUNTS + 10)
        log.seal()
        return notes(outside)

    monkeypatch.setattr(CheckpointCopies, "notes", sealed_at_that_moment)
    find(log, monkeypatch)
    result = CliRunner().invoke(verify, options)
    assert (result.exit_code, "TRUNCATED" in result.output) == (0, False), result.output
    assert f"anchored up to position {3 * (ACCOUNTS + 10)}" in result.output


@pytest.mark.promise("verify-all-finds-remembered")
def test_what_is_only_warned_of_ends_with_exit_code_1(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    find(log, monkeypatch)
    log.admin.execute("ALTER TABLE events DISABLE TRIGGER USER")
    log.admin.execute("GRANT UPDATE ON events TO importledger")
    result = CliRunner().invoke(verify, ["--all"])
    assert result.exit_code == 1
    assert "is disabled" in result.output
    assert result.output.count("WARNED") >= 2, result.output


@pytest.mark.parametrize(
    ("key", "code", "says"),
    [
        ("nonsense", 2, "--key must be a verifier key (NAME+HASH+KEY) or a file that holds one; nonsense is neither"),
        ("a+b", 2, "a verifier key must read NAME+HASH+KEY"),
        (OTHER_KEY.verifier, 1, "a checkpoint is not signed with this key. No event was found altered."),
    ],
)
def test_a_wrong_key_accuses_nobody_of_altering_the_log(
    log: Log, monkeypatch: pytest.MonkeyPatch, key: str, code: int, says: str
) -> None:
    find(log, monkeypatch)
    result = CliRunner().invoke(verify, ["--key", key])
    assert (result.exit_code, says in " ".join(result.output.split())) == (code, True), result.output
    assert "is not what was signed" not in result.output


def test_the_key_may_be_in_the_file_that_seal_wrote(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    find(log, monkeypatch)
    (log.folder / "monday.key").write_text(f"Verifier key: {KEY.verifier}\n")
    assert CliRunner().invoke(verify, ["--key", str(log.folder / "monday.key")]).exit_code == 0
