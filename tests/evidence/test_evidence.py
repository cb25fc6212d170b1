"""The page of evidence has every requirement, with the tests whose markers name it."""

import re

from tests.evidence import MARKERS, PAGE, WITHOUT_TESTS, evidence_page, standards
from tests.support.folders import ROOT
from tests.support.markers import marked_tests

REQUIREMENTS = [requirement for standard in standards() for requirement in standard.all()]


MAX_THREAT_MODEL_BYTES = 12_288


def test_the_page_of_evidence_is_what_the_markers_of_tests_say() -> None:
    assert PAGE.read_text("utf-8") == evidence_page(), "make docs writes it"


def test_a_requirement_has_tests_or_a_reason_why_it_has_none() -> None:
    tests = marked_tests(*MARKERS)
    assert {requirement.state for requirement in REQUIREMENTS} <= {"met", "partly", *WITHOUT_TESTS}
    assert [
        requirement
        for requirement in REQUIREMENTS
        if bool(tests.get(requirement.name)) == (requirement.state in WITHOUT_TESTS)
    ] == []


def test_markers_name_requirements_that_there_are() -> None:
    assert set(marked_tests(*MARKERS)) <= {requirement.name for requirement in REQUIREMENTS}


def test_no_requirement_stands_outside_of_the_chapters() -> None:
    for standard in standards():
        listed = [found.name for chapter in standard.chapters for found in standard.of_chapter(chapter)]
        assert sorted(listed) == sorted(standard.requirements)


def test_the_threat_model_is_short_and_names_tests_that_there_are() -> None:
    text = (ROOT / "docs" / "explanation" / "security.md").read_text("utf-8")
    assert len(text.encode()) <= MAX_THREAT_MODEL_BYTES
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert named
    assert [test for test in named if f"def {test[1]}(" not in (ROOT / test[0]).read_text("utf-8")] == []
