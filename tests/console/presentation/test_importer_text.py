"""Texts for importers name the fault, the field and what to do, and no value."""

import pytest

from api.description.problem_sentences import problem_of, sentence_at
from console.presentation.formats import Formats
from console.presentation.importer_text import MAX_PROBLEMS, REMEDIES, text_about_account, text_about_cause
from console.presentation.texts import translations
from schemas.sentence import german_of

PROBLEMS = [problem_of("blank@customers.0.family_name"), problem_of("unknown_code@nowhere")]


def german(text: str, **values: str) -> str:
    return translations("de").ugettext(text) % values


def test_the_text_about_an_account_has_a_line_for_each_problem_and_what_to_do() -> None:
    text = text_about_account("NORDWIND", "A/1", "monday", PROBLEMS, german, Formats("de").sentence)
    first, _, problem, remedy, _, other, _, last = text.splitlines()
    assert first == "Konto A/1 von NORDWIND ist im Lauf monday fehlgeschlagen:"
    assert problem == f"1. {german_of(PROBLEMS[0].detail)} (blank, customers.0.family_name)"
    assert remedy == f"Zu tun: {german_of(REMEDIES['blank'])}"
    assert other.startswith("2. ")
    assert last == "Bitte senden Sie das korrigierte Konto unter derselben Nummer erneut."
    without = text_about_account("NORDWIND", "A/1", "", PROBLEMS * MAX_PROBLEMS, german, Formats("de").sentence)
    assert without.startswith("Konto A/1 von NORDWIND ist fehlgeschlagen:")
    assert (f"\n{MAX_PROBLEMS}. " in without, f"\n{MAX_PROBLEMS + 1}. " in without) == (True, False)


@pytest.mark.parametrize(("path", "place"), [("customers[].email", "blank, customers[].email"), ("", "blank")])
def test_the_text_about_a_cause_names_suppliers_and_number(path: str, place: str) -> None:
    says = sentence_at("blank", path)
    text = text_about_cause(["A", "B"], "1.234", "blank", path, says, german, Formats("de").sentence)
    first, _, problem, _, _, last = text.splitlines()
    assert first == "Zahl der Konten von A, B, die aus derselben Ursache fehlschlagen: 1.234"
    assert problem == f"{german_of(says)} ({place})"
    assert "Liste" in last
