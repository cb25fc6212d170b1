"""Findings of `doctor`, and the input of its checks."""

from pathlib import Path
from typing import Any, Literal

import msgspec
from psycopg import Connection

from cli.service.settings import Settings
from eventstore.log.rows import rows_of
from projections import FOLLOWING
from projections.queries.vitals import Vitals, read_part

Grade = Literal["good", "warned", "wrong"]


class Finding(msgspec.Struct, frozen=True, omit_defaults=False):
    """Result of one check: a sentence, and the command or instruction that helps if it is not good."""

    check: str
    state: Grade
    says: str
    todo: str | None = None


def good(check: str, sentence: str) -> Finding:
    return Finding(check, "good", sentence)


def warned(check: str, sentence: str, todo: str) -> Finding:
    return Finding(check, "warned", sentence, todo)


def wrong(check: str, sentence: str, todo: str | None = None) -> Finding:
    return Finding(check, "wrong", sentence, todo)


class CheckInput(msgspec.Struct, frozen=True, kw_only=True):
    """Input of checks that need no database: settings, and the folder of backups if it is given."""

    settings: Settings
    backups: Path | None = None


class DatabaseCheckInput(CheckInput, frozen=True, kw_only=True):
    """Input of checks that need the database."""

    database_url: str
    connection: Connection[Any]
    parts: dict[str, Vitals] = {}
    """Parts of the vitals that were read already, by name."""

    def vitals(self, part: str) -> Vitals:
        """Return the numbers of this part (see `PARTS`), read once. Raises psycopg.Error if they cannot be read."""
        if part not in self.parts:
            names = tuple(projection.name for projection in FOLLOWING)
            self.parts[part] = read_part(self.connection, names, part)
        return self.parts[part]

    def rows(self, query: Any, *parameters: Any) -> list[tuple[Any, ...]]:
        return rows_of(self.connection, query, *parameters)

    def value(self, query: Any, *parameters: Any) -> Any:
        """Return the single value that a query selects; None if there is no row."""
        rows = self.rows(query, *parameters)
        return rows[0][0] if rows else None
