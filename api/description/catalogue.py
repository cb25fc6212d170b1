"""Catalogue of error codes in English and German: meaning, cause, remedy, example.

`GET /errors/`, openapi.json and docs/reference/errors.md are made from it. `errors.toml` has the codes, `market/` the
rules.
"""

from pathlib import Path
from typing import Any, Literal

import msgspec

from api.http.status_codes import sentence_of
from eventstore.errors import AlreadyImported
from market import RULES
from market.participant import PARTICIPANT, PRICE_SHEETS
from market.post_account import DELIVERY_NOTE, ENERGY_AMOUNT, INVOICE
from schemas.account import Account
from schemas.reading.field_names import named
from schemas.sentence import Sentence

Where = Literal["answer", "field", "latest_error", "history", "graphql"]
"""Place of a code.

`answer`: `code` of an answer. `field`: `code` of an item of `errors`. `latest_error`: `code` in an import's status.
`history`: only in events, as code@path or as the code of an event. `graphql`: `errors[].extensions.errorCode`.
"""


class RuleOfCode(msgspec.Struct, frozen=True):
    """Rule of the market that uses a code."""

    resource: str
    """Resource of the rule (Ressource)."""
    at: str
    """Path of the checked value (Feld)."""
    says: str
    """Sentence of the rule in English (Regel)."""
    severity: str
    """error or warning (Schwere)."""
    source: str
    """Source of the rule (Fundstelle)."""
    says_de: str = ""
    """Sentence of the rule in German (Regel auf Deutsch)."""


class ErrorCode(msgspec.Struct, frozen=True):
    """Error code with its texts. `status` is None for a code that occurs only in answers with status 200."""

    code: str
    """Permanent code; /errors/ lists all (Fehlercode)."""
    where: tuple[Where, ...]
    """Places where the code occurs (Vorkommen)."""
    status: int | None
    """HTTP status of answers with the code; null if it occurs only in answers with status 200 (HTTP-Status)."""
    meaning: str
    """Meaning in English (Bedeutung)."""
    example: dict[str, Any]
    """Example of an answer (Beispiel)."""
    meaning_de: str = ""
    """Meaning in German (Bedeutung auf Deutsch)."""
    when: str = ""
    """Cause in English (Ursache)."""
    when_de: str = ""
    """Cause in German (Ursache auf Deutsch)."""
    action: str = ""
    """Remedy in English (Abhilfe)."""
    action_de: str = ""
    """Remedy in German (Abhilfe auf Deutsch)."""
    rules: tuple[RuleOfCode, ...] = ()
    """Rules of the market that use the code (Regeln)."""

    @property
    def sentence(self) -> Sentence:
        return Sentence(self.meaning, self.meaning_de)


class _Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Code in `errors.toml`. `attr` is the path in the code's example [default: the path of its first rule]."""

    where: tuple[Where, ...]
    status: int | None = None
    attr: str = ""
    en: str
    de: str
    when: str = ""
    when_de: str = ""
    action: str
    action_de: str


_RULES = {
    "account": RULES,
    "market participant": PARTICIPANT,
    "price sheets": PRICE_SHEETS,
    "delivery note": DELIVERY_NOTE,
    "energy amount": ENERGY_AMOUNT,
    "market participant invoice": INVOICE,
}
MAX_CAUSES = 2
"""Rules that the cause of a code quotes. `ErrorCode.rules` has all of them."""
_UNEXPECTED = Sentence("An unexpected error occurred.", "Ein unerwarteter Fehler ist aufgetreten.")


def _catalogue() -> tuple[ErrorCode, ...]:
    rows = msgspec.toml.decode(Path(__file__).with_name("errors.toml").read_bytes(), type=dict[str, _Row])
    rules: dict[str, list[RuleOfCode]] = {code: [] for code in rows}
    for resource, table in _RULES.items():
        for rule in table:
            shown = RuleOfCode(resource, rule.at, str(rule.says), str(rule.severity), rule.source, rule.says.german)
            rules[rule.code].append(shown)
    return tuple(
        ErrorCode(
            code=code,
            where=row.where,
            status=row.status,
            meaning=row.en,
            example=_example(code, row, rules[code]),
            meaning_de=row.de,
            when=row.when or _of_rules("A rule is broken", "Or another of its rules.", [r.says for r in rules[code]]),
            when_de=row.when_de
            or _of_rules(
                "Eine Regel ist verletzt", "Oder eine andere Regel mit diesem Code.", [r.says_de for r in rules[code]]
            ),
            action=row.action,
            action_de=row.action_de,
            rules=tuple(rules[code]),
        )
        for code, row in rows.items()
    )


def _of_rules(begins: str, ends: str, rules: list[str]) -> str:
    """Return the cause of a code: the sentences of its first MAX_CAUSES rules."""
    sentences = [*dict.fromkeys(rules)]
    more = [ends] if len(sentences) > MAX_CAUSES else []
    return f"{begins}: {' '.join([*sentences[:MAX_CAUSES], *more])}"


def _example(code: str, row: _Row, rules: list[RuleOfCode]) -> dict[str, Any]:
    """Return an answer, problem, status record, event or GraphQL error with the code."""
    shown = {"detail": Sentence(row.en, row.de), "code": code}
    match row.where[0]:
        case "answer" if row.status == 500:
            return shown | {"detail": _UNEXPECTED, "request_id": "9f8b7c6d5e4f3a2b"}
        case "answer" if code == AlreadyImported.code:
            return {
                "non_field_errors": shown | {"detail": sentence_of(AlreadyImported(""))},
                "account_id": "A-7K2M9QXD",
            }
        case "field" if row.attr:
            detail = named(Sentence(row.en, row.de), Account, row.attr.split("."))
            return shown | {"detail": detail, "attr": row.attr}
        case "field":
            [first, *_] = rules
            detail = Sentence(first.says, first.says_de)
            return shown | {"detail": detail, "attr": first.at.replace("[]", ".0") or "non_field_errors"}
        case "latest_error":
            return shown | {"domain": "account_import"}
        case "history":
            return {"code": code}
        case "graphql":
            return {"extensions": {"errorType": "VALIDATION", "errorCode": code, "errorDescription": row.en}}
        case _:
            return shown


CATALOGUE = _catalogue()
