"""Findings of `doctor`, and the input of its checks."""

from pathlib import Path
from typing import Any, Literal

import msgspec
from psycopg import Connection

from cli.service.settings import Settings
from eventstore.log.rows import rows_of
from projections import FOLLOWING
from projections.queries.vitals import Vitals, read_part
from redaction import text
from schemas.sentence import Sentence

Grade = Literal["good", "warned", "wrong"]


class Finding(msgspec.Struct, frozen=True, omit_defaults=False):
    """Result of a check: a sentence, and for a fault the command or instruction that fixes it."""

    check: str
    state: Grade
    says: Sentence
    todo: Sentence | None = None


def good(check: str, sentence: Sentence) -> Finding:
    return Finding(check, "good", sentence)


def warned(check: str, sentence: Sentence, todo: Sentence) -> Finding:
    return Finding(check, "warned", sentence, todo)


def wrong(check: str, sentence: Sentence, todo: Sentence | None = None) -> Finding:
    return Finding(check, "wrong", sentence, todo)


def command(line: str) -> Sentence:
    """Return a command, which is the same in both languages."""
    return Sentence(line, line)


def counted(number: int, english: tuple[str, str], german: tuple[str, str]) -> Sentence:
    """Return a number with its noun. The nouns are given as (singular, plural)."""
    return Sentence(text.counted(number, *english), _german(text.counted(number, *german)))


def grouped(number: float) -> Sentence:
    """Return a number without decimals, with a separator between thousands."""
    return Sentence(f"{number:,.0f}", _german(f"{number:,.0f}"))


def decimal(number: float) -> Sentence:
    """Return a number with one decimal."""
    return Sentence(f"{number:.1f}", _german(f"{number:.1f}"))


def _german(number: str) -> str:
    return number.translate({ord(","): ".", ord("."): ","})


class CheckInput(msgspec.Struct, frozen=True, kw_only=True):
    """Input of checks that need no database: settings, and the folder of backups or None."""

    settings: Settings
    backups: Path | None = None


class DatabaseCheckInput(CheckInput, frozen=True, kw_only=True):
    """Input of checks that need the database."""

    database_url: str
    connection: Connection[Any]
    parts: dict[str, Vitals] = {}
    """Parts of the vitals that were already read, by name."""

    def vitals(self, part: str) -> Vitals:
        """Return the numbers of a part (see `PARTS`), which is read once.

        Raises psycopg.Error if the part cannot be read.
        """
        if part not in self.parts:
            names = tuple(projection.name for projection in FOLLOWING)
            self.parts[part] = read_part(self.connection, names, part)
        return self.parts[part]

    def rows(self, query: Any, *parameters: Any) -> list[tuple[Any, ...]]:
        return rows_of(self.connection, query, *parameters)

    def value(self, query: Any, *parameters: Any) -> Any:
        """Return the value of a query with one column; None without a row."""
        rows = self.rows(query, *parameters)
        return rows[0][0] if rows else None
