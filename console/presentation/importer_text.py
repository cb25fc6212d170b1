"""Texts for the importing party about failed accounts: problems, fields and remedies.

Pure. The texts contain no values of an account, because they are sent by e-mail.
"""

from collections.abc import Sequence
from typing import Any

from api.description.catalogue import CATALOGUE
from console.presentation.texts import N_
from console.presentation.timeline import Translate
from schemas.base import Problem
from schemas.sentence import Sentence

REMEDIES = {entry.code: Sentence(entry.action, entry.action_de) for entry in CATALOGUE}
"""Remedies by code."""
MAX_PROBLEMS = 50
"""Problems per text. Importers read all of them from the API."""


def text_about_account(
    supplier: str, external: str, run: str, problems: Sequence[Problem], translate: Translate, sentence: Any
) -> str:
    """Return the text about one account. `sentence` returns a `Sentence` in the reader's language."""
    head = N_("Account %(external)s of %(supplier)s failed in run %(run)s:")
    head = head if run else N_("Account %(external)s of %(supplier)s failed:")
    lines = [translate(head, external=external, supplier=supplier, run=run)]
    for number, problem in enumerate(problems[:MAX_PROBLEMS], 1):
        lines += ["", *_lines(f"{number}. ", problem.code, problem.attr, problem.detail, translate, sentence)]
    lines += ["", translate(N_("Please send the corrected account again under the same number."))]
    return "\n".join(lines)


def text_about_cause(
    suppliers: Sequence[str], number: str, code: str, path: str, says: Sentence, translate: Translate, sentence: Any
) -> str:
    """Return the text about all accounts that fail for one cause."""
    head = translate(
        N_("Number of accounts of %(suppliers)s that fail for the same cause:"), suppliers=", ".join(suppliers)
    )
    last = translate(N_("The attached list has the accounts that failed. Please send the corrected accounts again."))
    return "\n".join([f"{head} {number}", "", *_lines("", code, path, says, translate, sentence), "", last])


def _lines(number: str, code: str, path: str, says: Any, translate: Translate, sentence: Any) -> list[str]:
    place = f"{code}, {path}" if path and path != "non_field_errors" else code
    lines = [f"{number}{sentence(says)} ({place})"]
    return [*lines, translate(N_("To do: %(action)s"), action=sentence(REMEDIES[code]))] if code in REMEDIES else lines
