"""What a migration is said to do: its statements, the locks, and who waits; and what no further migration may do."""

import pytest

from eventstore.operations.migrate import MIGRATIONS, ONLINE
from eventstore.operations.statements import INDEX_S, LARGE, STATEMENT_S, effects, statements_of, summary_of
from eventstore.operations.upgrade import NOT_ROLLED, planned

OFFLINE_BEFORE = "0026"
"""Migrations from before the first release were applied to databases that nobody used meanwhile."""


def test_a_script_is_taken_apart_without_its_comments_and_functions() -> None:
    script = "-- Why.\n-- And how.\n\nCREATE TABLE a (b text); -- c;\nCREATE FUNCTION f() AS $$ BEGIN; END $$;\n"
    assert summary_of(script) == "Why. And how."
    assert statements_of(script) == ["CREATE TABLE a (b text)", "CREATE FUNCTION f() AS ''"]


@pytest.mark.parametrize(
    ("statement", "does", "lock", "rewrites"),
    [
        ("CREATE INDEX i ON events (a)", "builds the index i", "SHARE", True),
        ("CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS i ON events (a)", "builds the index i",
         "SHARE UPDATE EXCLUSIVE", False),
        ("ALTER TABLE events ADD COLUMN a text", "changes the table events", "ACCESS EXCLUSIVE", False),
        ("ALTER TABLE events ALTER COLUMN a TYPE bigint", "changes the table events", "ACCESS EXCLUSIVE", True),
        ("ALTER TABLE platform.meter ADD CONSTRAINT c CHECK (a > 0) NOT VALID", "changes the table platform.meter",
         "ACCESS EXCLUSIVE", False),
        ("UPDATE events SET a = 1", "changes rows of events", "ROW EXCLUSIVE", False),
        ("DROP TABLE IF EXISTS a", "drops the table a", "ACCESS EXCLUSIVE", False),
        ("INSERT INTO a SELECT * FROM events", "fills a from events", "ACCESS SHARE", False),
    ],
)  # fmt: skip
def test_a_statement_is_said_in_words_with_its_lock(statement: str, does: str, lock: str, rewrites: bool) -> None:
    [effect] = effects(statement)
    assert (effect.does, effect.lock, effect.rewrites) == (does, lock, rewrites)


def test_what_a_migration_makes_itself_is_locked_by_nobody() -> None:
    script = "CREATE TABLE a (b text); CREATE INDEX i ON a (b);"
    assert [effect.lock for effect in effects(script)] == [None, None]


def test_seconds_grow_with_the_table() -> None:
    plan = planned("x.sql", "CREATE INDEX i ON events (a);", {"events": 10_000_000})
    assert plan.seconds == pytest.approx(STATEMENT_S + 10_000_000 * INDEX_S, abs=0.001)
    assert [(lock.table, lock.blocks) for lock in plan.locks] == [("events", "writes")]


def test_no_migration_keeps_writers_of_a_large_table_waiting() -> None:
    for file in MIGRATIONS.glob("*.sql"):
        if file.name < OFFLINE_BEFORE:
            continue
        script = file.read_text()
        large = [one for one in effects(script) if one.table and (one.table in LARGE or "platform." in one.table)]
        assert [one.does for one in large if one.rewrites] == [], (
            f"{file.name}: build it CONCURRENTLY, in a file of its own"
        )
        if "CONCURRENTLY" in script:
            assert script.startswith(ONLINE)
            assert all(
                one.startswith(("CREATE INDEX CONC", "CREATE UNIQUE INDEX CONC")) for one in statements_of(script)
            )


def test_what_takes_away_what_the_version_before_uses_is_said() -> None:
    for file in MIGRATIONS.glob("*.sql"):
        taken = [
            one
            for one in statements_of(file.read_text())
            if one.startswith(("DROP TABLE", "ALTER TABLE"))
            and ("DROP COLUMN" in one or "RENAME" in one or one.startswith("DROP TABLE"))
        ]
        assert not taken or file.name in NOT_ROLLED, (file.name, taken)
