"""Every error code: what it means, where it is met, an example; in English and in German.

Source of `GET /errors/`, openapi.json and docs/reference/errors.md. `errors.toml` lists the codes, and `market/` the
rules that use them.
"""

from pathlib import Path
from typing import Any, Literal

import msgspec

from api.http.status_codes import sentence_of
from eventstore.errors import AlreadyImported
from market import RULES
from market.participant import PARTICIPANT, PRICE_SHEETS
from market.post_account import DELIVERY_NOTE, ENERGY_AMOUNT, INVOICE
from schemas.sentence import Sentence

Where = Literal["answer", "field", "latest_error", "history", "graphql"]
"""`answer`: the code of a whole answer. `field`: an item of `errors`. `latest_error`: of an import's status.

`history`: in events only, as code@place or as the code of an event. `graphql`: `errors[].extensions.errorCode`.
"""


class RuleOfCode(msgspec.Struct, frozen=True):
    """A rule of the market: at which place, its sentence, its source, whether it refuses or warns."""

    resource: str
    """What the rule is about (Ressource)."""
    at: str
    """The place that it looks at (Feldpfad)."""
    says: str
    """The rule, in English (Regel)."""
    severity: str
    """error or warning (Schwere)."""
    source: str
    """Where the rule is from (Quelle)."""
    says_de: str = ""
    """The same in German."""


class ErrorCode(msgspec.Struct, frozen=True):
    """One code. `status` is the HTTP status of answers that carry it; None where it is met in a 200 only."""

    code: str
    """Permanent code; /errors/ lists all (Fehlercode)."""
    where: tuple[Where, ...]
    """Where the code is met (Vorkommen)."""
    status: int | None
    """HTTP status of answers that carry it; null where it is met in a 200 only (HTTP-Status)."""
    meaning: str
    """What it means, in English (Bedeutung)."""
    example: dict[str, Any]
    """How it looks (Beispiel)."""
    meaning_de: str = ""
    """The same in German."""
    rules: tuple[RuleOfCode, ...] = ()
    """Rules of the market that use it (Regeln)."""

    @property
    def sentence(self) -> Sentence:
        return Sentence(self.meaning, self.meaning_de)


class _Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A code as `errors.toml` has it; `attr` is the path of its example, by default the place of its first rule."""

    where: tuple[Where, ...]
    status: int | None = None
    attr: str = ""
    en: str
    de: str


_RULES = {
    "account": RULES,
    "market participant": PARTICIPANT,
    "price sheets": PRICE_SHEETS,
    "delivery note": DELIVERY_NOTE,
    "energy amount": ENERGY_AMOUNT,
    "market participant invoice": INVOICE,
}
_UNEXPECTED = Sentence("An unexpected error occurred.", "Ein unerwarteter Fehler ist aufgetreten.")


def _catalogue() -> tuple[ErrorCode, ...]:
    rows = msgspec.toml.decode(Path(__file__).with_name("errors.toml").read_bytes(), type=dict[str, _Row])
    rules: dict[str, list[RuleOfCode]] = {code: [] for code in rows}
    for resource, table in _RULES.items():
        for rule in table:
            told = RuleOfCode(resource, rule.at, str(rule.says), str(rule.severity), rule.source, rule.says.german)
            rules[rule.code].append(told)
    return tuple(
        ErrorCode(code, row.where, row.status, row.en, _example(code, row, rules[code]), row.de, tuple(rules[code]))
        for code, row in rows.items()
    )


def _example(code: str, row: _Row, rules: list[RuleOfCode]) -> dict[str, Any]:
    """How an answer, a problem, a status record, an event or a GraphQL error shows the code."""
    told = {"detail": Sentence(row.en, row.de), "code": code}
    match row.where[0]:
        case "answer" if row.status == 500:
            return told | {"detail": _UNEXPECTED, "request_id": "9f8b7c6d5e4f3a2b"}
        case "answer" if code == AlreadyImported.code:
            return {"non_field_errors": told | {"detail": sentence_of(AlreadyImported(""))}, "account_id": "A-7K2M9QXD"}
        case "field" if row.attr:
            return told | {"attr": row.attr}
        case "field":
            [first, *_] = rules
            detail = Sentence(first.says, first.says_de)
            return told | {"detail": detail, "attr": first.at.replace("[]", ".0") or "non_field_errors"}
        case "latest_error":
            return told | {"domain": "account_import"}
        case "history":
            return {"code": code}
        case "graphql":
            return {"extensions": {"errorType": "VALIDATION", "errorCode": code, "errorDescription": row.en}}
        case _:
            return told


CATALOGUE = _catalogue()
