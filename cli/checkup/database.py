"""Checks of the database: version, durability, rights, disk and write-ahead log."""

import platform
import shutil
from collections.abc import Iterator

from cli.checkup.finding import (
    CheckInput,
    DatabaseCheckInput,
    Finding,
    Grade,
    command,
    counted,
    decimal,
    good,
    grouped,
    warned,
    wrong,
)
from eventstore.clock import now
from eventstore.log.recorder import CODE_VERSION
from eventstore.operations.fitness import NotChecked, UnsafeStore, refuse_unsafe
from eventstore.operations.migrate import MIGRATIONS
from schemas.sentence import Sentence

GIGABYTE = 2**30
MAX_CLOCK_DIFFERENCE_S = 2.0
MIN_FREE, WARNED_FREE = 0.02, 0.10
"""Free share of the disk: below MIN_FREE `doctor` reports an error, below WARNED_FREE a warning."""
WARNED_DAYS = 14
"""Days until the disk is full. Fewer days are a warning."""
MAX_KEPT_WAL_GB = 10
WARNED_AGE, MAX_AGE = 500_000_000, 1_500_000_000
"""Age of the oldest transaction that is not frozen. Postgres refuses writes at an age of two thousand million."""
OLDEST_POSTGRES = 150_000
WARNED_DEAD_ROWS = 10_000_000
_DEAD = """
SELECT relid::regclass::text, n_dead_tup FROM pg_stat_user_tables WHERE n_dead_tup > %s AND n_dead_tup > n_live_tup
"""
_ARCHIVER = (
    "SELECT last_failed_time > coalesce(last_archived_time, '-infinity'), last_failed_time FROM pg_stat_archiver"
)


def server_version(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Report the versions of the software and of Postgres, and warn of an untested version of Postgres."""
    server = context.connection.info.server_version
    versions = f"importledger {CODE_VERSION}, Python {platform.python_version()}, Postgres {server // 10_000}."
    if server < OLDEST_POSTGRES:
        sentence = Sentence(
            "{versions} Postgres below 15 is not tested.",
            "{versions} Postgres vor Version 15 ist nicht getestet.",
            versions=versions,
        )
        yield warned("versions", sentence, Sentence("upgrade Postgres", "Postgres aktualisieren"))
    else:
        yield good("versions", Sentence(versions, versions))


def schema(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Compare the versions of code and schema."""
    applied = {name for (name,) in context.rows("SELECT name FROM schema_migrations")}
    known = {file.name for file in MIGRATIONS.glob("*.sql")}
    if missing := sorted(known - applied):
        number = counted(len(missing), ("migration is", "migrations are"), ("Migration fehlt", "Migrationen fehlen"))
        yield wrong(
            "schema", Sentence("{number} not applied.", "{number}.", number=number), command("importledger migrate")
        )
    elif newer := sorted(applied - known):
        sentence = Sentence(
            "The schema is newer than this version ({name}).",
            "Das Schema ist neuer als diese Version ({name}).",
            name=newer[-1],
        )
        yield wrong("schema", sentence, Sentence("upgrade importledger", "importledger aktualisieren"))
    else:
        sentence = Sentence(
            "Migrations: all {number} are applied.", "Migrationen: Alle {number} sind angewendet.", number=len(known)
        )
        yield good("schema", sentence)


def durability(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Check that acknowledged events are durable, and that the database has what an append needs."""
    try:
        refuse_unsafe(context.database_url, context.settings.durability)
    except UnsafeStore as error:
        yield wrong("durability", Sentence("{error}", "Die Datenbank ist ungeeignet: {error}", error=error))
    except NotChecked as error:
        if context.value("SHOW transaction_read_only") == "on":
            yield wrong(
                "durability",
                Sentence("The database takes no writes.", "Die Datenbank nimmt keine Änderungen an."),
                Sentence("point DATABASE_URL at the primary", "DATABASE_URL auf den Primärserver setzen"),
            )
            return
        sentence = Sentence(
            "The database did not answer, so it could not be tested: {error}.",
            "Die Datenbank hat nicht geantwortet und konnte nicht geprüft werden: {error}.",
            error=error,
        )
        yield wrong(
            "durability", sentence, Sentence("importledger doctor, again", "importledger doctor erneut ausführen")
        )
    else:
        sentence = Sentence(
            "Acknowledged events are on disk, and no pooler interferes with locks, notifications or sessions.",
            "Bestätigte Ereignisse liegen auf der Festplatte, und kein Pooler stört Sperren, Benachrichtigungen oder "
            "Verbindungen.",
        )
        yield good("durability", sentence)


def rights(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Check that the role of the service cannot alter the log."""
    if context.value("SELECT has_table_privilege('events', 'UPDATE') OR has_table_privilege('events', 'DELETE')"):
        todo = Sentence(
            "give DATABASE_URL a role of its own, DATABASE_ADMIN_URL the owner, then importledger migrate",
            "DATABASE_URL eine eigene Rolle geben, DATABASE_ADMIN_URL den Eigentümer, dann importledger migrate",
        )
        sentence = Sentence(
            "The service's role may alter the log.", "Die Datenbankrolle des Dienstes darf das Protokoll verändern."
        )
        yield warned("rights", sentence, todo)
    else:
        sentence = Sentence(
            "The service's role may add to the log and not alter it.",
            "Die Datenbankrolle des Dienstes darf das Protokoll ergänzen, aber nicht verändern.",
        )
        yield good("rights", sentence)


def replication(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Report the standbys, and warn of much write-ahead log for replication slots."""
    server = context.vitals("server")
    count = server.synchronous_standbys
    standbys = Sentence("{number} synchronous standbys", "Synchrone Standby-Server: {number}", number=count)
    if count is None:
        standbys = Sentence(
            "Standbys cannot be seen by the schema's owner", "Der Eigentümer des Schemas sieht keine Standby-Server"
        )
    required = context.settings.durability
    yield good(
        "replication",
        Sentence("{standbys}; required: {level}.", "{standbys}; verlangt: {level}.", standbys=standbys, level=required),
    )
    kept_gb = (server.kept_wal_bytes or 0) / GIGABYTE
    if kept_gb > MAX_KEPT_WAL_GB:
        sentence = Sentence(
            "{size} GB of write-ahead log are kept for the slowest replication slot.",
            "Für den langsamsten Replication Slot werden {size} GB Write-Ahead-Log aufbewahrt.",
            size=f"{kept_gb:.0f}",
        )
        todo = Sentence(
            "bring its standby back, or drop the slot (pg_replication_slots)",
            "dessen Standby-Server wieder starten oder den Slot entfernen (pg_replication_slots)",
        )
        yield warned("replication", sentence, todo)


def wal(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Check that the write-ahead log has a limit, and that its archiving does not fail."""
    bad = False
    slots = context.value("SELECT count(*) FROM pg_replication_slots")
    if slots and context.value("SHOW max_slot_wal_keep_size") == "-1":
        bad = True
        sentence = Sentence(
            "A replication slot without a reader keeps write-ahead log until the disk is full.",
            "Ein Replication Slot ohne Leser sammelt Write-Ahead-Log, bis die Festplatte voll ist.",
        )
        todo = Sentence("set max_slot_wal_keep_size in the database", "max_slot_wal_keep_size in der Datenbank setzen")
        yield warned("wal", sentence, todo)
    if context.value("SHOW archive_mode") != "off":
        failed, since = context.rows(_ARCHIVER)[0]
        if failed:
            bad = True
            sentence = Sentence(
                "Archiving has failed since {since:%Y-%m-%dT%H:%M:%SZ}.",
                "Die Archivierung schlägt seit {since:%Y-%m-%dT%H:%M:%SZ} fehl.",
                since=since,
            )
            todo = Sentence(
                "correct archive_command, or the place it writes to", "archive_command oder dessen Ziel korrigieren"
            )
            yield warned("wal", sentence, todo)
    if not bad:
        sentence = Sentence(
            "{size} GB of write-ahead log were written so far; none accumulates.",
            "Bisher wurden {size} GB Write-Ahead-Log geschrieben; nichts staut sich.",
            size=decimal((context.vitals("server").wal_bytes or 0) / GIGABYTE),
        )
        yield good("wal", sentence)


def clock(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Compare the clocks of this machine and the database."""
    seconds = (context.value("SELECT clock_timestamp()") - now()).total_seconds()
    if abs(seconds) > MAX_CLOCK_DIFFERENCE_S:
        sentence = Sentence(
            "The database's clock differs by {seconds} s.",
            "Die Uhr der Datenbank weicht um {seconds} s ab.",
            seconds=decimal(seconds),
        )
        yield warned("clock", sentence, Sentence("synchronise the clocks", "Uhren synchronisieren"))
    else:
        sentence = Sentence(
            "The clocks of this machine and the database agree.",
            "Die Uhren dieses Servers und der Datenbank stimmen überein.",
        )
        yield good("clock", sentence)


def disk(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Check the free space in the data folder, and report the size of the database."""
    findings = list(free_space(context, context.vitals("growth").day_bytes))
    yield from findings
    size = decimal((context.vitals("sizes").database_bytes or 0) / GIGABYTE)
    sentence = Sentence("The database has {size} GB", "Die Datenbank hat {size} GB", size=size)
    if not findings:
        sentence = Sentence(
            "{size}; its disk is not of this machine",
            "{size}; ihre Festplatte gehört nicht zu diesem Server",
            size=sentence,
        )
    yield good("disk", Sentence("{size}.", "{size}.", size=sentence))


def free_space(context: CheckInput, day_bytes: int = 0) -> Iterator[Finding]:
    """Check the free space in the data folder of an embedded database, and the days until the disk is full."""
    folder = context.settings.data_dir
    is_here = context.settings.database_url is None or context.settings.roles_file is not None
    if not is_here or not folder.exists():
        return
    used = shutil.disk_usage(folder)
    free = used.free / used.total
    days = used.free // day_bytes if day_bytes else WARNED_DAYS
    is_little = free < WARNED_FREE or days < WARNED_DAYS
    state: Grade = "wrong" if free < MIN_FREE else "warned" if is_little else "good"
    growth = Sentence(
        ", enough for {days} days of the last day's growth",
        ", genug für {days} Tage beim Zuwachs des letzten Tages",
        days=grouped(days),
    )
    sentence = Sentence(
        "{size} GB ({share}) are free below {folder}{growth}.",
        "{size} GB ({share}) sind unter {folder} frei{growth}.",
        size=grouped(used.free / GIGABYTE),
        share=f"{free:.0%}",
        folder=folder,
        growth=growth if day_bytes else "",
    )
    todo = Sentence("free disk space", "Platz auf der Festplatte schaffen")
    yield Finding("disk", state, sentence, None if state == "good" else todo)


def vacuum(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Check the age of the oldest transaction, and the number of dead rows of each table."""
    age = context.vitals("server").transaction_age or 0
    state: Grade = "wrong" if age > MAX_AGE else "warned" if age > WARNED_AGE else "good"
    sentence = Sentence(
        "The oldest transaction that is not frozen is {age} transactions old.",
        "Die älteste nicht eingefrorene Transaktion ist {age} Transaktionen alt.",
        age=grouped(age),
    )
    todo = Sentence(
        "VACUUM (FREEZE) in the database, as its owner", "VACUUM (FREEZE) in der Datenbank, als ihr Eigentümer"
    )
    yield Finding("vacuum", state, sentence, None if state == "good" else todo)
    for table, dead in context.rows(_DEAD, WARNED_DEAD_ROWS):
        number = counted(dead, ("dead row", "dead rows"), ("tote Zeile", "tote Zeilen"))
        sentence = Sentence("{table} has {number}.", "{table} hat {number}.", table=table, number=number)
        yield warned("vacuum", sentence, command(f"VACUUM {table}"))
