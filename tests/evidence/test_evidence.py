"""The page of evidence is what the markers of tests say, and leaves no requirement out."""

import re

from tests.evidence import MARKERS, PAGE, WITHOUT_TESTS, evidence_page, standards
from tests.support.folders import ROOT
from tests.support.markers import marked_tests

REQUIREMENTS = [one for standard in standards() for one in standard.all()]


def test_the_page_of_evidence_is_what_the_markers_of_tests_say() -> None:
    assert PAGE.read_text("utf-8") == evidence_page(), "make docs writes it"


def test_a_requirement_has_tests_or_a_reason_why_it_has_none() -> None:
    tests = marked_tests(*MARKERS)
    assert {one.state for one in REQUIREMENTS} <= {"met", "partly", *WITHOUT_TESTS}
    assert [one for one in REQUIREMENTS if bool(tests.get(one.name)) == (one.state in WITHOUT_TESTS)] == []


def test_the_threat_model_names_tests_that_there_are() -> None:
    text = (ROOT / "docs" / "explanation" / "security.md").read_text("utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert named
    assert [one for one in named if f"def {one[1]}(" not in (ROOT / one[0]).read_text("utf-8")] == []
