"""Promises that a reading of the sources and documents can verify."""

import ast
import re
from pathlib import Path

import pytest

from api.description.openapi import openapi
from api.operations import OPERATIONS

ROOT = Path(__file__).parent.parent
ASKING = ("market.check", "market.check_in_steps", "RULES.check")
PACKAGES = ("api", "workers", "cli", "projections", "eventstore", "embedded", "market")


@pytest.mark.promise("one-judge-api-worker")
def test_whoever_judges_an_account_calls_the_same_function() -> None:
    """The rules of the market are called in one file, and only one has a `check_submission`."""
    asking, judging = set(), set()
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in ASKING:
                    asking.add(str(file.relative_to(ROOT)))
                if isinstance(node, ast.FunctionDef) and node.name in ("check_submission", "check_submission_in_steps"):
                    judging.add(str(file.relative_to(ROOT)))
    assert asking - {"market/__init__.py"} == {"market/submission_check.py"}
    assert judging == {"market/submission_check.py"}


@pytest.mark.promise("description-200-201-gain")
def test_the_answers_of_create_and_validate_have_three_optional_fields() -> None:
    document = openapi(OPERATIONS)
    for path, status in (("/v2/data-import/accounts/", "201"), ("/v2/data-import/accounts/validate/", "200")):
        answer = document["paths"][path]["post"]["responses"][status]["content"]["application/json"]["schema"]
        schema = document["components"]["schemas"][answer["$ref"].rpartition("/")[2]]
        assert set(schema["properties"]) == {"status", "outcome", "warnings"}
        assert not schema.get("required")


TOLD = {
    "how-to/erase.md": ["pg_wal", "max_slot_wal_keep_size", "repo1-retention-archive", "pg_archivecleanup", "ANALYZE"],
    "how-to/proxy.md": ["TLS", "reverse proxy"],
    "how-to/secrets.md": ["Redis with a password", "requirepass", "Images by digest"],
}


@pytest.mark.promise("docs-operations-md-says")
@pytest.mark.asvs("V11.1.1", "V11.1.2", "V14.1.2")
@pytest.mark.parametrize("page", TOLD)
def test_the_documents_say_what_operators_must_set(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    assert [word for word in TOLD[page] if word not in text] == []


@pytest.mark.promise("docs-operations-md-says")
def test_images_are_named_by_digest() -> None:
    """Whatever is started or built upon, but for the image that is built here."""
    compose, container = (ROOT / "compose.yaml").read_text(), (ROOT / "Containerfile").read_text()
    named = re.findall(r"^ *(?:image|PYTHON_IMAGE): (.+)$", compose, re.M) + re.findall(
        r"^ARG \w+=(.+)$", container, re.M
    )
    others = [image for image in named if image != "importledger"]
    assert len(others) == 4
    assert [image for image in others if not re.search(r"@sha256:[0-9a-f]{64}\}?$", image)] == []
