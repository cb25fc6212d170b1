"""Callers that prefer German get German sentences. Codes, paths and the English default do not change."""

import ast
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from api.description.catalogue import CATALOGUE
from api.http.languages import JSON, preferred
from api.operations import OPERATIONS
from market import RULES
from market.participant import PARTICIPANT, PRICE_SHEETS
from market.post_account import DELIVERY_NOTE, ENERGY_AMOUNT, INVOICE
from market.submission_check import Occasion, Terms, check_submission
from schemas.reading import shape_errors as sentences
from schemas.reading.shape import derived_checks
from schemas.sentence import Sentence, german_of
from schemas.submission import read_submission
from tests.support.german import is_german
from tests.support.make import NOON, an_account, encoded

ROOT = Path(__file__).parent.parent.parent.parent


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"),
        ("de", "de"),
        ("DE", "de"),
        ("DE-at", "de"),
        ("de-CH-1901", "de"),
        ("de-DE,de;q=0.9,en;q=0.8", "de"),
        ("en-US,en;q=0.9,de;q=0.8", "en"),
        ("en;q=0.5, de", "de"),
        ("en, de", "en"),
        ("de, en", "de"),
        ("fr, de;q=0.3", "de"),
        ("fr", "en"),
        ("*", "en"),
        ("de, *;q=0.5", "de"),
        ("de;q=0.5, *", "en"),
        ("en;q=0, *", "de"),
        ("de;q=0", "en"),
        ("de;q=0, en;q=0", "en"),
        ("de;q=1.000", "de"),
        ("de ; q=0.4 , en ; q=0.3", "de"),
        ("de;q=x", "en"),
        ("de;q=", "en"),
        ("den", "en"),
        ("d", "en"),
        (";;,,=", "en"),
        ("de-DE;q=0.1, de;q=0.9, en;q=0.5", "de"),
    ],
)
def test_a_header_prefers_a_language(header: str, language: str) -> None:
    assert preferred(header) == language


def rules() -> list[Any]:
    return [*RULES, *PARTICIPANT, *PRICE_SHEETS, *DELIVERY_NOTE, *ENERGY_AMOUNT, *INVOICE]


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.code)
def test_every_code_has_a_german_sentence_and_a_meaning_of_its_own(entry: Any) -> None:
    assert is_german(entry.meaning_de), entry.meaning_de
    assert entry.meaning_de != entry.meaning
    for rule in entry.rules:
        assert is_german(rule.says_de), rule.says_de
        assert rule.says_de != rule.says
        assert rule.says != entry.meaning
        assert rule.says_de != entry.meaning_de


PARTS = [part for part in vars(sentences).values() if isinstance(part, Sentence)]
"""Sentences, and parts of them, for bodies that do not have their shape."""


def sentences_of_the_shape() -> list[Sentence]:
    whole = [part for part in PARTS if part.endswith(".")]
    many = [function(3) for name, function in vars(sentences).items() if name.startswith("too_")]
    made = [
        sentences.expected(sentences.DATE, 5),
        sentences.not_valid(sentences.DATETIME),
        sentences.no_choice(["A", "B"]),
    ]
    read = [
        sentences.malformed("JSON is malformed: invalid character (byte 3)"),
        sentences.malformed("truncated"),
    ]
    checks = [check.says for wire_type in wire_types() for check in derived_checks(wire_type)]
    return [*whole, *many, *made, *read, *checks, sentences.undocumented("name")]


def sentences_of_the_window() -> list[Sentence]:
    """Sentences for accounts whose window of time is not possible."""
    windows = [(-2, -1), (9, 10), (2, 1)]
    days = [[NOON + timedelta(days=day) for day in window] for window in windows]
    tasks = [{"schedule_window_start": start, "schedule_window_end": end} for start, end in days]
    bodies = [encoded({"payload": an_account(), "task_params": task}) for task in tasks]
    terms = Terms(is_dry_run_only=True)
    judged = [check_submission(read_submission(body), terms, NOON, Occasion.CREATE) for body in bodies]
    return [problem.detail for judgement in judged for problem in judgement.problems]  # type: ignore[misc]


def test_every_rule_and_every_shape_error_says_what_must_hold() -> None:
    """A rule as a fact says the opposite of what happened: "At least one customer has a family name."."""
    shape, window = sentences_of_the_shape(), sentences_of_the_window()
    assert len(shape) > 40
    assert len({*window}) == 6
    for sentence in [*(rule.says for rule in rules()), *shape, *window]:
        assert re.search(r"\bmust\b", sentence), sentence
        assert re.search(r"\b(muss|müssen|darf|dürfen)\b", sentence.german), sentence.german
        assert is_german(sentence.german), sentence.german
    assert len(PARTS) > 20
    assert all(is_german(part.german) for part in PARTS)


def wire_types() -> list[type]:
    return [operation.body for operation in OPERATIONS if operation.body]


def test_values_stand_in_both_languages() -> None:
    inner = Sentence("an object", "ein Objekt")
    sentence = Sentence("Not {what}, but {name}.", "Nicht {what}, sondern {name}.", what=inner, name="{x}")
    assert (sentence, sentence.german) == ("Not an object, but {x}.", "Nicht ein Objekt, sondern {x}.")
    assert german_of("plain") == "plain"
    assert JSON["en"].encode({"a": [sentence]}) == b'{"a":["Not an object, but {x}."]}'
    assert JSON["de"].encode({"a": [sentence]}) == b'{"a":["Nicht ein Objekt, sondern {x}."]}'


SENTENCES = {"Problem": 2, "ApiError": 1, "NotValid": 1, "NotJson": 0, "TooMuchWork": 0, "note": 2, "not_found": 0}
"""Calls, and the place of the argument that is a sentence."""


@pytest.mark.parametrize("package", ["api", "market", "schemas"])
def test_no_sentence_is_written_in_english_alone(package: str) -> None:
    for file in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            for argument in node.args[SENTENCES[name] :][:1] if name in SENTENCES else ():
                assert not isinstance(argument, ast.Constant | ast.JoinedStr), f"{file}:{node.lineno}"
