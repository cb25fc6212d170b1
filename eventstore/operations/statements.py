"""What the statements of a migration do to a database that is in use: which locks they take, and how long. Pure.

A migration is read as text. What it makes itself is empty and locked by nobody, so only tables count that there were
before. Seconds are estimates: rows times what a row is assumed to take on two shared cores.
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

INDEX_S = 2.5e-6
"""A row of an index of text keys that is built."""
WRITE_S = 12e-6
"""A row that is updated, deleted or copied, with its indexes and its write-ahead log."""
SCAN_S = 0.4e-6
"""A row that is looked at, for a constraint or a NOT NULL."""
STATEMENT_S = 0.005
"""A statement that only changes the catalogue."""
LARGE = ("events", "payloads", "payload_keys", "import_status", "account_search", "remembered_answers")
"""Tables that grow with every account, besides those of the platform."""


class Effect(msgspec.Struct, frozen=True):
    """What one statement does: in words, to which table that there is, under which lock, and for how long."""

    does: str
    table: str | None = None
    lock: str | None = None
    blocks: str = "nothing"
    """Who waits meanwhile: nothing, writes, or reads and writes."""
    cost_s: float = 0.0
    """Seconds for each row of the table."""

    def seconds(self, rows: Mapping[str, int]) -> float:
        """How long it takes where the tables have as many rows."""
        return STATEMENT_S + self.cost_s * rows.get(self.table or "", 0)

    @property
    def rewrites(self) -> bool:
        """Whether writers of the table wait for a time that grows with it."""
        return self.cost_s > 0 and self.blocks != "nothing"


def statements_of(script: str) -> list[str]:
    """Return a migration's statements to be read, not run: each on one line, without comments and string literals."""
    bare = re.sub(r"\$\$.*?\$\$", "''", script, flags=re.S)
    bare = re.sub(r"'(?:[^']|'')*'", "''", bare)
    bare = re.sub(r"--[^\n]*", "", bare)
    return [" ".join(one.split()) for one in bare.split(";") if one.strip()]


def summary_of(script: str) -> str:
    """What a migration says of itself: its first comment, up to the first blank line."""
    lines = re.match(r"(?:--[^\n]*\n)*", script)
    return " ".join(line.removeprefix("--").strip() for line in (lines[0] if lines else "").splitlines())


def effects(script: str) -> list[Effect]:
    """What a migration does, statement by statement."""
    made: set[str] = set()
    return [effect for statement in statements_of(script) for effect in _effects(statement, made)]


_NAME = r'((?:\w+\.)?"?\w+"?)'


def _effects(statement: str, made: set[str]) -> Iterator[Effect]:
    """The effects of a statement. What it makes is added to `made`."""
    for pattern, effect in _READERS:
        match = re.match(pattern, statement, re.I)
        if match:
            read: Effect = effect(statement, match)
            if pattern is _CREATE_TABLE:
                made.add(match[1])
            yield Effect(read.does) if read.table in made else read
            return


def _altered(statement: str, match: re.Match[str]) -> Effect:
    table, actions = match[1], match[2]
    cost = 0.0
    if re.search(r"\bTYPE\b", actions, re.I):
        cost = WRITE_S
    elif re.search(r"\bSET NOT NULL\b|\bADD (?:CONSTRAINT|PRIMARY KEY|UNIQUE|CHECK|FOREIGN KEY)\b", actions, re.I):
        cost = 0.0 if re.search(r"\bNOT VALID\b", actions, re.I) else SCAN_S
    return Effect(f"changes the table {table}", table, "ACCESS EXCLUSIVE", "reads and writes", cost)


def _indexed(statement: str, match: re.Match[str]) -> Effect:
    concurrently, name, table = match[1], match[2], match[3]
    if concurrently:
        return Effect(f"builds the index {name}", table, "SHARE UPDATE EXCLUSIVE", "nothing", 2 * INDEX_S)
    return Effect(f"builds the index {name}", table, "SHARE", "writes", INDEX_S)


_CREATE_TABLE = rf"CREATE TABLE (?:IF NOT EXISTS )?{_NAME}"
_READERS = (
    (_CREATE_TABLE, lambda s, m: Effect(f"makes the table {m[1]}")),
    (rf"CREATE (?:UNIQUE )?INDEX (CONCURRENTLY )?(?:IF NOT EXISTS )?{_NAME} ON {_NAME}", _indexed),
    (rf"ALTER TABLE (?:IF EXISTS |ONLY )*{_NAME} (.*)", _altered),
    (
        rf"UPDATE (?:ONLY )?{_NAME}",
        lambda s, m: Effect(f"changes rows of {m[1]}", m[1], "ROW EXCLUSIVE", "nothing", WRITE_S),
    ),
    (
        rf"DELETE\s+FROM (?:ONLY )?{_NAME}",
        lambda s, m: Effect(f"deletes rows of {m[1]}", m[1], "ROW EXCLUSIVE", "nothing", WRITE_S),
    ),
    (
        rf"INSERT INTO {_NAME}.*\bFROM {_NAME}",
        lambda s, m: Effect(f"fills {m[1]} from {m[2]}", m[2], "ACCESS SHARE", "nothing", WRITE_S),
    ),
    (
        rf"CREATE (?:OR REPLACE )?TRIGGER \w+ .*? ON {_NAME}",
        lambda s, m: Effect(f"sets a trigger on {m[1]}", m[1], "SHARE ROW EXCLUSIVE", "writes"),
    ),
    (
        rf"DROP TABLE (?:IF EXISTS )?{_NAME}",
        lambda s, m: Effect(f"drops the table {m[1]}", m[1], "ACCESS EXCLUSIVE", "reads and writes"),
    ),
    (
        rf"DROP (\w+) (?:IF EXISTS )?{_NAME}",
        lambda s, m: Effect(f"drops the {m[1].lower()} {m[2]}"),
    ),
    (
        rf"CREATE (?:OR REPLACE )?(FUNCTION|VIEW|SEQUENCE|SCHEMA) (?:IF NOT EXISTS )?{_NAME}",
        lambda s, m: Effect(f"makes the {m[1].lower()} {m[2]}"),
    ),
)
"""Patterns of statements, and what they do; others (comments, rights, settings) keep nobody waiting."""
