"""Checks of the database: version, durability, rights, disk and write-ahead log."""

import platform
import shutil
from collections.abc import Iterator

from cli.checkup.finding import CheckInput, DatabaseCheckInput, Finding, Grade, good, warned, wrong
from eventstore.clock import now
from eventstore.log.recorder import CODE_VERSION
from eventstore.operations.fitness import NotChecked, UnsafeStore, refuse_unsafe
from eventstore.operations.migrate import MIGRATIONS
from redaction.text import counted

GIGABYTE = 2**30
MAX_CLOCK_DIFFERENCE_S = 2.0
MIN_FREE, WARNED_FREE = 0.02, 0.10
"""Free shares of the disk. Below the first is an error, below the second a warning."""
WARNED_DAYS = 14
"""Days until the disk is full, below which is a warning."""
MAX_KEPT_WAL_GB = 10
WARNED_AGE, MAX_AGE = 500_000_000, 1_500_000_000
"""Transactions since the oldest that is not frozen; Postgres takes no more writes at two thousand million."""
OLDEST_POSTGRES = 150_000
WARNED_DEAD_ROWS = 10_000_000
_DEAD = """
SELECT relid::regclass::text, n_dead_tup FROM pg_stat_user_tables WHERE n_dead_tup > %s AND n_dead_tup > n_live_tup
"""
_ARCHIVER = (
    "SELECT last_failed_time > coalesce(last_archived_time, '-infinity'), last_failed_time FROM pg_stat_archiver"
)


def server_version(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Report the versions of the software and of Postgres, and warn of a Postgres that is not tested."""
    server = context.connection.info.server_version
    versions = f"importledger {CODE_VERSION}, Python {platform.python_version()}, Postgres {server // 10_000}."
    if server < OLDEST_POSTGRES:
        yield warned("versions", f"{versions} Postgres below 15 is not tested.", "upgrade Postgres")
    else:
        yield good("versions", versions)


def schema(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Compare the versions of code and schema."""
    applied = {name for (name,) in context.rows("SELECT name FROM schema_migrations")}
    known = {file.name for file in MIGRATIONS.glob("*.sql")}
    if missing := sorted(known - applied):
        yield wrong(
            "schema", f"{counted(len(missing), 'migration is', 'migrations are')} not applied.", "importledger migrate"
        )
    elif newer := sorted(applied - known):
        yield wrong("schema", f"The schema is newer than this version ({newer[-1]}).", "upgrade importledger")
    else:
        yield good("schema", f"Migrations: all {len(known)} are applied.")


def durability(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Check that acknowledged events are durable, and that the database has what an append needs."""
    try:
        refuse_unsafe(context.database_url, context.settings.durability)
    except UnsafeStore as error:
        yield wrong("durability", str(error))
    except NotChecked as error:
        if context.value("SHOW transaction_read_only") == "on":
            yield wrong("durability", "The database takes no writes.", "point DATABASE_URL at the primary")
            return
        sentence = f"The database did not answer, so it could not be tested: {error}."
        yield wrong("durability", sentence, "importledger doctor, again")
    else:
        yield good(
            "durability",
            "Acknowledged events are on disk, and no pooler interferes with locks, notifications or sessions.",
        )


def rights(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Check that the role of the service cannot alter the log."""
    if context.value("SELECT has_table_privilege('events', 'UPDATE') OR has_table_privilege('events', 'DELETE')"):
        todo = "give DATABASE_URL a role of its own, DATABASE_ADMIN_URL the owner, and run importledger migrate"
        yield warned("rights", "The service's role may alter the log.", todo)
    else:
        yield good("rights", "The service's role may add to the log and not alter it.")


def replication(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Report the standbys, and warn of much write-ahead log that is kept for replication slots."""
    server = context.vitals("server")
    count = server.synchronous_standbys
    standbys = "Standbys cannot be seen by the schema's owner" if count is None else f"{count} synchronous standbys"
    yield good("replication", f"{standbys}; required: {context.settings.durability}.")
    kept_gb = (server.kept_wal_bytes or 0) / GIGABYTE
    if kept_gb > MAX_KEPT_WAL_GB:
        sentence = f"{kept_gb:.0f} GB of write-ahead log are kept for the slowest replication slot."
        yield warned("replication", sentence, "bring its standby back, or drop the slot (pg_replication_slots)")


def wal(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Check that the write-ahead log has a limit, and that its archiving does not fail."""
    bad = False
    slots = context.value("SELECT count(*) FROM pg_replication_slots")
    if slots and context.value("SHOW max_slot_wal_keep_size") == "-1":
        bad = True
        sentence = "A replication slot without a reader keeps write-ahead log until the disk is full."
        yield warned("wal", sentence, "set max_slot_wal_keep_size in the database")
    if context.value("SHOW archive_mode") != "off":
        failed, since = context.rows(_ARCHIVER)[0]
        if failed:
            bad = True
            sentence = f"Archiving has failed since {since:%Y-%m-%dT%H:%M:%SZ}."
            yield warned("wal", sentence, "correct archive_command, or the place it writes to")
    if not bad:
        written = (context.vitals("server").wal_bytes or 0) / GIGABYTE
        yield good("wal", f"{written:.1f} GB of write-ahead log were written so far; none accumulates.")


def clock(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Compare the clocks of this machine and the database."""
    seconds = (context.value("SELECT clock_timestamp()") - now()).total_seconds()
    if abs(seconds) > MAX_CLOCK_DIFFERENCE_S:
        yield warned("clock", f"The database's clock differs by {seconds:.1f} s.", "synchronise the clocks")
    else:
        yield good("clock", "The clocks of this machine and the database agree.")


def disk(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Check the free space in the data folder, and report the size of the database."""
    findings = list(free_space(context, context.vitals("growth").day_bytes))
    yield from findings
    remote = "" if findings else "; its disk is not of this machine"
    yield good("disk", f"The database has {(context.vitals('sizes').database_bytes or 0) / GIGABYTE:.1f} GB{remote}.")


def free_space(context: CheckInput, day_bytes: int = 0) -> Iterator[Finding]:
    """Check the free space in the data folder, if it holds the embedded database, and the days until it is full."""
    folder = context.settings.data_dir
    is_here = context.settings.database_url is None or context.settings.roles_file is not None
    if not is_here or not folder.exists():
        return
    used = shutil.disk_usage(folder)
    free = used.free / used.total
    days = used.free // day_bytes if day_bytes else WARNED_DAYS
    is_little = free < WARNED_FREE or days < WARNED_DAYS
    state: Grade = "wrong" if free < MIN_FREE else "warned" if is_little else "good"
    growth = f", enough for {days:,} days of the last day's growth" if day_bytes else ""
    sentence = f"{used.free / GIGABYTE:.0f} GB ({free:.0%}) are free below {folder}{growth}."
    yield Finding("disk", state, sentence, None if state == "good" else "free disk space")


def vacuum(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Check the age of the oldest transaction, and the number of dead rows of each table."""
    age = context.vitals("server").transaction_age or 0
    state: Grade = "wrong" if age > MAX_AGE else "warned" if age > WARNED_AGE else "good"
    sentence = f"The oldest transaction that is not frozen is {age:,} transactions old."
    yield Finding(
        "vacuum", state, sentence, None if state == "good" else "VACUUM (FREEZE) in the database, as its owner"
    )
    for table, dead in context.rows(_DEAD, WARNED_DEAD_ROWS):
        yield warned("vacuum", f"{table} has {counted(dead, 'dead row')}.", f"VACUUM {table}")
