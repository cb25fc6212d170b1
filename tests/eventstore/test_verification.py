"""Whatever somebody with every right on the database changes about the log is found; what is harmless is not."""

import hashlib
import json
import random
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from bench.history import append_all
from embedded.postgres import PostgresUrls
from eventstore.aggregates import import_process
from eventstore.aggregates.supplier import CreateSupplier
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from eventstore.operations.backup import back_up
from eventstore.operations.migrate import migrate
from eventstore.proof.checkpoints import LogKey, Outside
from eventstore.proof.payload_verification import verify_payloads
from eventstore.proof.proof import write_proof
from eventstore.proof.sealing import Sealed, SealRefused, seal
from eventstore.proof.verification import Kept, gaps, verify_events
from eventstore.proof.verifier import Invalid, check, leaf_of, main
from projections import INLINE
from projections.erasure import erase
from tests.make import NOON

KEY, OTHER_KEY = LogKey.of("A" * 43), LogKey.of("B" * 43)
SUPPLIER = "NORDWIND"
ACCOUNTS = 200
"""Three events each: more than two tiles."""

Admin = psycopg.Connection[Any]


class Log:
    """A sealed log, somebody who may do everything to its database, and an auditor who kept the first checkpoint."""

    def __init__(self, urls: PostgresUrls, folder: Path) -> None:
        self.urls = urls
        self.outside = Outside((folder / "outside").as_uri())
        self.folder = folder
        self.admin: Admin = psycopg.connect(urls.admin, autocommit=True)
        for table in ("events", "log_checkpoints"):
            self.admin.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        self.add(1, ACCOUNTS // 2)
        first = self.seal()
        self.kept = Kept("kept", first.note)
        self.add(ACCOUNTS // 2 + 1, ACCOUNTS)
        self.seal()
        assert self.problems() == []

    def add(self, first: int, last: int, supplier: str = SUPPLIER) -> None:
        append_all(self.urls.service, supplier, range(first, last + 1))

    def seal(self, key: LogKey = KEY, former_key: str | None = None) -> Sealed:
        with psycopg.connect(self.urls.service, autocommit=True) as connection:
            sealed = seal(connection, key, self.outside, at=NOON, former_key=former_key)
        assert sealed is not None
        return sealed

    def problems(self, key: LogKey = KEY, *, outside: bool = True, kept: bool = False, whole: bool = True) -> list[str]:
        with psycopg.connect(self.urls.service) as connection:
            notes = [Kept(f"in the database, {size}", note) for size, note in self.checkpoints()]
            notes += [Kept(source, note) for source, note in self.outside.notes()] if outside else []
            notes += [self.kept] if kept else []
            found = verify_events(connection, [key.verifier], notes, whole=whole).problems
            return found + verify_payloads(connection).problems

    def checkpoints(self) -> list[tuple[int, str]]:
        return self.admin.execute("SELECT size, note FROM log_checkpoints ORDER BY size").fetchall()

    def cut(self, upto: int) -> None:
        """The tail of the log, and whatever in the database would give that away."""
        self.admin.execute("DELETE FROM events WHERE position > %s", (upto,))
        self.admin.execute("DELETE FROM payloads WHERE stream NOT IN (SELECT stream FROM events)")
        self.admin.execute("DELETE FROM payload_keys WHERE stream NOT IN (SELECT stream FROM events)")
        self.forget_the_tree()
        self.admin.execute("DELETE FROM log_checkpoints WHERE size > %s", (upto,))

    def forget_the_tree(self) -> None:
        self.admin.execute("TRUNCATE log_tiles")


@pytest.fixture
def log(database: PostgresUrls, folder: Path) -> Iterator[Log]:
    log = Log(database, folder)
    yield log
    log.admin.close()


def edited(column: str, value: str) -> Callable[[Log], None]:
    def edit(log: Log) -> None:
        log.admin.execute(f"UPDATE events SET {column} = {value} WHERE position = 100")

    edit.__name__ = f"edited_{column}"
    return edit


def swapped(log: Log) -> None:
    for one, other in ((100, -1), (101, 100), (-1, 101)):
        log.admin.execute("UPDATE events SET position = %s WHERE position = %s", (other, one))


def deleted_in_the_middle(log: Log) -> None:
    log.admin.execute("DELETE FROM events WHERE position = 100")


def moved(log: Log, after: int, by: int) -> None:
    log.admin.execute("UPDATE events SET position = -position WHERE position > %s", (after,))
    log.admin.execute("UPDATE events SET position = %s - position WHERE position < 0", (by,))


def deleted_and_closed_up(log: Log) -> None:
    deleted_in_the_middle(log)
    moved(log, 100, -1)


def inserted(log: Log) -> None:
    moved(log, 99, 1)
    log.admin.execute(
        "INSERT INTO events SELECT 100, 'supplier/EVIL', 1, 'supplier_created.v1', recorded_at, 'EVIL', caused_by,"
        " NULL, code_version, '{}' FROM events WHERE position = 99"
    )


def doubled(log: Log) -> None:
    log.admin.execute("ALTER TABLE events DROP CONSTRAINT events_pkey, DROP CONSTRAINT events_stream_version")
    log.admin.execute("INSERT INTO events SELECT * FROM events WHERE position = 100")


def cut(log: Log) -> None:
    log.admin.execute("DELETE FROM events WHERE position > 500")


def cut_without_a_trace(log: Log) -> None:
    log.cut(500)


def edited_with_its_leaf(log: Log) -> None:
    """The stored tree is made anew over the edited event: only the checkpoints tell."""
    edited("caused_by", "'nobody'")(log)
    log.forget_the_tree()


def payload_and_digest_edited(log: Log) -> None:
    row = log.admin.execute("SELECT stream, state FROM events WHERE position = 100").fetchone()
    assert row is not None
    other = hashlib.sha256(b"{}").hexdigest()
    state = msgspec.json.encode(msgspec.json.decode(row[1]) | {"payload_sha256": other})
    log.admin.execute("UPDATE events SET state = %s WHERE position = 100", (state,))


def payload_edited(log: Log) -> None:
    log.admin.execute(
        "UPDATE payloads SET content = set_byte(content, 50, get_byte(content, 50) # 1)"
        " WHERE stream = (SELECT stream FROM events WHERE position = 100)"
    )


def payload_of_another(log: Log) -> None:
    log.admin.execute(
        "UPDATE payloads SET content = other.content FROM payloads AS other"
        " WHERE payloads.stream = (SELECT stream FROM events WHERE position = 100)"
        " AND other.stream = (SELECT stream FROM events WHERE position = 1)"
    )


def payload_deleted(log: Log) -> None:
    log.admin.execute("DELETE FROM payloads WHERE stream = (SELECT stream FROM events WHERE position = 100)")


def payload_key_deleted(log: Log) -> None:
    log.admin.execute("DELETE FROM payload_keys WHERE stream = (SELECT stream FROM events WHERE position = 100)")


def erased_without_an_event(log: Log) -> None:
    payload_deleted(log)
    log.admin.execute(
        "UPDATE payload_keys SET key = NULL, erased_at = now()"
        " WHERE stream = (SELECT stream FROM events WHERE position = 100)"
    )


def tree_edited(log: Log) -> None:
    log.admin.execute("UPDATE log_tiles SET hashes = set_byte(hashes, 40, get_byte(hashes, 40) # 1) WHERE level = 0")


def checkpoint_edited(log: Log) -> None:
    log.admin.execute("UPDATE log_checkpoints SET note = replace(note, '12:00', '11:00')")


def checkpoints_deleted(log: Log) -> None:
    """And those outside as well: what is not anchored is not called fine."""
    log.admin.execute("DELETE FROM log_checkpoints")
    for file in (log.folder / "outside").iterdir():
        file.unlink()


TAMPERINGS: dict[Callable[[Log], None], str] = {
    edited("state", "'{}'"): r"ALTERED  position 100 .*first checkpoint that disagrees: 300 events",
    edited("state", "'\\xff7b'"): r"ALTERED  position 100 ",
    edited("recorded_at", "recorded_at + interval '1 microsecond'"): r"ALTERED  position 100 ",
    edited("caused_by", "'nobody'"): r"ALTERED  position 100 ",
    edited("topic", "'import_retried.v1'"): r"ALTERED  position 100 ",
    edited("supplier", "NULL"): r"ALTERED  position 100 ",
    edited("code_version", "'9'"): r"ALTERED  position 100 ",
    edited("command_id", "'x'"): r"ALTERED  position 100 ",
    edited("version", "7"): r"ALTERED  position 100 ",
    edited("stream", "stream || 'x'"): r"ALTERED  position 100 ",
    swapped: r"ALTERED  position 100 [\s\S]*ALTERED  position 101 ",
    deleted_in_the_middle: r"MISSING  position 100: .*first checkpoint that disagrees: 300 events",
    deleted_and_closed_up: r"ALTERED  position 100 [\s\S]*TRUNCATED  the log has 599 events, .* 600 exists",
    inserted: r"ALTERED  position 100 ",
    doubled: r"DOUBLED  the log has 601 events",
    cut: r"TRUNCATED  the log has 500 events, a signed checkpoint of 600 exists",
    cut_without_a_trace: r"TRUNCATED  the log has 500 events, .*outside",
    edited_with_its_leaf: r"REWRITTEN  .*300 events",
    payload_and_digest_edited: r"ALTERED  position 100 [\s\S]*PAYLOAD  position 100 ",
    payload_edited: r"PAYLOAD  payload of import/NORDWIND/BENCH-0000034 does not match its digest",
    payload_of_another: r"PAYLOAD  payload of import/NORDWIND/BENCH-0000034 does not match its digest",
    payload_deleted: r"PAYLOAD  position 100 .* not there, nor was it erased",
    payload_key_deleted: r"PAYLOAD  payload of .* its key is not there",
    erased_without_an_event: r"PAYLOAD  position 100 .* nor was it erased",
    tree_edited: r"UNSURE  position 2 .*the stored tree itself was altered",
    checkpoint_edited: r"NOT SIGNED  in the database, 300: .*signature .* is wrong",
    checkpoints_deleted: r"UNANCHORED",
}


@pytest.mark.parametrize("tamper", TAMPERINGS, ids=lambda tamper: tamper.__name__.strip("<>"))
def test_tampering_is_found_and_named(log: Log, tamper: Callable[[Log], None]) -> None:
    tamper(log)
    assert_found(log.problems(), TAMPERINGS[tamper])


def assert_found(problems: list[str], pattern: str) -> None:
    assert re.search(pattern, "\n".join(problems)), problems


def test_a_log_that_was_rewritten_and_signed_anew_fails_against_any_kept_checkpoint(log: Log) -> None:
    edited("caused_by", "'nobody'")(log)
    log.cut(600)
    checkpoints_deleted(log)
    log.seal()
    assert log.problems() == []  # whoever has key, database and the place outside can do that
    assert_found(log.problems(kept=True), r"REWRITTEN  .*300 events .*kept")


def test_another_key_is_found(log: Log) -> None:
    edited("caused_by", "'nobody'")(log)
    log.forget_the_tree()
    checkpoints_deleted(log)
    log.seal(OTHER_KEY)
    assert_found(log.problems(), r"NOT SIGNED  in the database, 600: .*not signed by the log's key")
    assert_found(log.problems(), r"UNANCHORED")


def test_a_new_key_goes_on_openly_from_what_the_former_one_has_signed(log: Log) -> None:
    with pytest.raises(SealRefused, match="has signed everything already"):
        log.seal(OTHER_KEY, former_key=KEY.verifier)
    log.add(301, 310)
    with pytest.raises(SealRefused, match="Is it the right sealing key"):
        log.seal(OTHER_KEY)
    log.seal(OTHER_KEY, former_key=KEY.verifier)
    log.add(311, 320)
    newest = log.seal(OTHER_KEY)
    assert newest.checkpoint.origin == OTHER_KEY.name
    with psycopg.connect(log.urls.service) as connection:
        notes = [log.kept, *(Kept(source, note) for source, note in log.outside.notes())]
        found = verify_events(connection, [KEY.verifier, OTHER_KEY.verifier], notes, whole=True)
        assert (found.problems, found.checkpoints) == ([], 5)
        streams = [import_process.stream_of(SUPPLIER, f"BENCH-{number:07}") for number in (1, 315)]
        proof = log.folder / "proof.zip"
        write_proof(
            connection, proof, streams, (newest.checkpoint, newest.note), OTHER_KEY.verifier, kept={}, payloads=False
        )
    with zipfile.ZipFile(proof) as opened:
        said, wrong = check(opened, OTHER_KEY.verifier, [])
    assert (len(said), wrong) == (9, [])


def test_a_proof_with_any_byte_spoilt_is_refused_or_says_the_same(
    log: Log, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sealed = log.seal()
    file, spoilt = log.folder / "proof.zip", log.folder / "spoilt.zip"
    streams = [import_process.stream_of(SUPPLIER, "BENCH-0000001")]
    with psycopg.connect(log.urls.service) as connection:
        newest = (sealed.checkpoint, sealed.note)
        write_proof(connection, file, streams, newest, KEY.verifier, kept={}, payloads=True)
    with zipfile.ZipFile(file) as opened:
        members = {name: opened.read(name) for name in opened.namelist()}
    before = _leaves(members["events.ndjson"])
    monkeypatch.setattr(sys, "argv", ["verify.py", str(spoilt), "--key", KEY.verifier])
    dice = random.Random(1)
    for _ in range(300):
        name = dice.choice(["proof.json", "events.ndjson", *(n for n in members if "/" in n)])
        content = bytearray(members[name])
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
        with zipfile.ZipFile(spoilt, "w") as written:
            for other, kept in members.items():
                written.writestr(other, bytes(content) if other == name else kept)
        is_refused = main() == 1
        assert is_refused == ("NOT PROVED" in capsys.readouterr().err)
        if name == "events.ndjson":
            assert is_refused == (_leaves(bytes(content)) != before)


def _leaves(events: bytes) -> list[bytes] | None:
    try:
        return [leaf_of(json.loads(line)) for line in events.decode().splitlines()]
    except (Invalid, ValueError):
        return None


def test_a_log_that_was_put_back_and_gone_on_with_is_neither_signed_nor_verified(log: Log) -> None:
    log.cut(300)
    with pytest.raises(SealRefused, match=r"TRUNCATED: the log has 300 events, and .* 600"):
        log.seal()
    log.add(1001, 1200)
    with pytest.raises(SealRefused, match=r"does not continue the checkpoint of 600 events"):
        log.seal()
    assert_found(log.problems(), r"REWRITTEN  .*600 events.*outside")


def test_what_is_not_anchored_is_named(log: Log) -> None:
    log.add(301, 310)
    with psycopg.connect(log.urls.service) as connection:
        found = verify_events(connection, [KEY.verifier], [log.kept], whole=True)
    assert (found.head, found.anchored, found.checkpoints, found.problems) == (630, 300, 1, [])


def test_without_all_the_newest_events_are_hashed_and_the_tree_is_taken_for_the_others(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventstore.proof.verification.CHUNK", 256)
    monkeypatch.setattr("eventstore.proof.verification.NEWEST_EVENTS", 256)
    assert log.problems(whole=False) == []
    edited("caused_by", "'nobody'")(log)
    assert log.problems(whole=False) == []
    log.admin.execute("UPDATE events SET caused_by = 'nobody' WHERE position = 590")
    assert_found(log.problems(whole=False), r"ALTERED  position 590 ")
    log.admin.execute("UPDATE log_tiles SET hashes = set_byte(hashes, 9, 9) WHERE level = 1")
    assert_found(log.problems(whole=False), r"REWRITTEN .* checkpoint of 300 events .* the first that disagrees")


def vacuumed(log: Log) -> None:
    for statement in ("VACUUM (FULL, ANALYZE) events", "REINDEX TABLE events", "CLUSTER events USING events_pkey"):
        log.admin.execute(statement)


def rebuilt(log: Log) -> None:
    log.admin.execute("TRUNCATE import_status, account_record")
    log.forget_the_tree()
    log.seal()


def erased(log: Log) -> None:
    ledger = Ledger(log.urls.admin, views=INLINE)
    assert erase(ledger, SUPPLIER, "BENCH-0000034", reason="DSR-1", at=now(), by="t") is not None
    ledger.close()


def upgraded(log: Log) -> None:
    migrate(log.urls.admin)
    log.admin.execute("ALTER TABLE events ADD COLUMN of_a_later_version text")
    ledger = Ledger(log.urls.service, views=INLINE)
    ledger.execute("supplier/LATER", CreateSupplier(), at=now() + timedelta(days=1), by="t")
    ledger.close()


def backed_up(log: Log) -> None:
    back_up(log.urls.service, log.folder / "backup")


@pytest.mark.parametrize("change", [vacuumed, rebuilt, erased, upgraded, backed_up])
def test_what_is_harmless_raises_nothing(log: Log, change: Callable[[Log], None]) -> None:
    change(log)
    assert log.problems(kept=True) == []
    log.seal()
    assert log.problems(kept=True) == []
    with psycopg.connect(log.urls.service) as connection:
        assert list(gaps(connection)) == []


def test_an_erased_person_who_is_put_back_is_found(log: Log) -> None:
    log.admin.execute("CREATE TABLE hidden AS SELECT * FROM payloads")
    erased(log)
    log.admin.execute("INSERT INTO payloads SELECT * FROM hidden WHERE stream LIKE '%%0000034' ON CONFLICT DO NOTHING")
    assert_found(log.problems(), r"PAYLOAD  import/NORDWIND/BENCH-0000034 was erased, and has a payload")


def test_the_database_itself_refuses_to_change_a_checkpoint(log: Log) -> None:
    log.admin.execute("ALTER TABLE log_checkpoints ENABLE TRIGGER USER")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        log.admin.execute("DELETE FROM log_checkpoints")
