"""Limits on the number of hard sentences in 1,000 words of each folder. A limit may only fall."""

import os
import subprocess

import pytest

from checks.plain_english import Passage, findings, passages, tracked
from tests.support.folders import ROOT

LIMITS = {
    "api": 3.0,
    "bench": 3.0,
    "checks": 3.0,
    "cli": 3.0,
    "console": 3.0,
    "docs": 3.0,
    "embedded": 3.0,
    "eventstore": 3.0,
    "importer": 3.0,
    "lab": 3.0,
    "market": 3.0,
    "projections": 3.0,
    "redaction": 3.0,
    "schemas": 3.0,
    "system": 3.0,
    "telemetry": 3.0,
    "tests": 3.0,
    "workers": 3.0,
}
"""Sentences in 1,000 words, by folder. The goal is 3. Lower a limit when its folder has become better."""
LONGEST_SUBJECT = 60
COMMITS = 50


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("folder", LIMITS)
def test_a_folder_has_few_hard_sentences(folder: str) -> None:
    texts = [passage for file in tracked([folder]) for passage in passages(file)]
    found = [finding for passage in texts for finding in findings(passage)]
    words = sum(len(passage.text.split()) for passage in texts)
    shown = "\n".join(
        f"{finding.passage.file}:{finding.passage.line}: {finding.reason}: {finding.sentence}" for finding in found
    )
    assert 1000 * len(found) / words <= LIMITS[folder], shown


@pytest.mark.parametrize(
    "sentence",
    [
        "Whoever sends alone waits for nobody.",
        "Make the view anew.",
        "It takes 35 µs.",
        " ".join(["word"] * 29) + ".",
    ],
)
def test_a_hard_sentence_is_found_beside_a_plain_one(sentence: str) -> None:
    assert [finding.sentence for finding in findings(Passage("f", 1, f"Return the row. {sentence}"))] == [sentence]


def test_subjects_of_commits_have_60_characters_at_most() -> None:
    """The newest COMMITS are checked. An archive without a history has none."""
    command = ["git", "log", f"-{COMMITS}", "--no-merges", "--format=%s"]
    log = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert [subject for subject in log.stdout.splitlines() if len(subject) > LONGEST_SUBJECT] == []
