"""The catalogue has every code that the service can answer with, and no other."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.description.catalogue import CATALOGUE
from api.http.status_codes import CODES
from checks.generated import errors_page, fields_page
from market import RULES
from tests.support.running import RunningService

ROOT = Path(__file__).parent.parent.parent.parent
PACKAGES = ("api", "eventstore", "market", "schemas", "workers")
BY_CODE = {entry.code: entry for entry in CATALOGUE}
CODE_ARGUMENTS = {
    "note": 1,
    "Problem": 1,
    "NotValid": 0,
    "NotSent": 0,
    "_require_accepted": 1,
    "_error": 0,
    "_warning": 0,
    "Check": 2,
}


"""Functions, and the place of the argument that is a code."""


def codes_in(tree: ast.AST) -> Iterator[str]:
    """String constants that are codes: `code=` and `code = `, and arguments at the known places."""
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="code", value=ast.Constant(value=str(code))):
                yield code
            case ast.Assign(targets=[ast.Name(id="code")], value=ast.Constant(value=str(code))):
                yield code
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args) if name in CODE_ARGUMENTS:
                place = CODE_ARGUMENTS[name]
                match args[place : place + 1]:
                    case [ast.Constant(value=str(code))]:
                        yield code
            case _:
                pass


def test_every_code_in_the_source_is_in_the_catalogue() -> None:
    found = {
        code
        for package in PACKAGES
        for file in (ROOT / package).rglob("*.py")
        if file.name != "catalogue.py"
        for code in codes_in(ast.parse(file.read_text()))
    }
    assert len(found) > 60
    assert found <= BY_CODE.keys()
    assert set(CODES.values()) <= BY_CODE.keys()


@pytest.mark.asvs("V2.1.2")
def test_every_rule_is_told_with_its_source() -> None:
    for rule in RULES:
        assert any(row.says == rule.says and row.source == rule.source for row in BY_CODE[rule.code].rules)


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.code)
def test_an_entry_is_whole_in_both_languages(entry: object) -> None:
    [same] = [other for other in CATALOGUE if other.code == entry.code]  # type: ignore[attr-defined]
    assert all((same.meaning, same.when, same.action, same.when_de, same.action_de))
    assert same.example
    assert " " in same.meaning_de, "a German sentence, not an argument that was meant for another parameter"
    assert (same.status is None) == (not {"answer", "field", "graphql"}.intersection(same.where))


def test_the_catalogue_can_be_read_without_a_token(service: RunningService) -> None:
    answer, headers = service.request("GET", "/errors/")
    assert answer.status == 200
    assert headers["content-type"] == "application/json"
    assert {entry["code"] for entry in answer.body} == BY_CODE.keys()


@pytest.mark.asvs("V2.1.2")
def test_the_page_of_errors_is_made_from_the_catalogue() -> None:
    assert (ROOT / "docs" / "reference" / "errors.md").read_text() == errors_page(), "say `make docs`"


def test_the_page_of_fields_is_made_from_the_shapes() -> None:
    assert (ROOT / "docs" / "reference" / "fields.md").read_text() == fields_page(), "say `make docs`"
    assert "| **iban** |" not in fields_page()
    assert "| **account_holder** | text | at most 512 characters, not blank |" in fields_page()


def test_the_cause_of_a_code_is_its_own() -> None:
    """A code of rules has the sentences of these rules as its cause."""
    by_cause: dict[str, set[str]] = {}
    for entry in CATALOGUE:
        by_cause.setdefault(entry.when, set()).add(entry.code)
    assert [codes for codes in by_cause.values() if len(codes) > 1] == [{"error", "INTERNAL_SERVER_ERROR"}]
    assert BY_CODE["invalid_iban"].when == "A rule is broken: The IBAN of a bank account must be valid."
