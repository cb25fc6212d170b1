"""Any change of the log by somebody with all database rights is found; harmless changes are not reported."""

import hashlib
import zipfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
import psycopg
import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates import import_process
from eventstore.aggregates.organisation import CreateKey, RevokeKey
from eventstore.aggregates.supplier import CreateSupplier
from eventstore.clock import now
from eventstore.log.answers import Answer
from eventstore.log.rows import value_of
from eventstore.operations.backup import write_backup
from eventstore.operations.guards import guards_off
from eventstore.operations.migrate import migrate
from eventstore.proof.payload_verification import verify_payloads
from eventstore.proof.proof import write_proof
from eventstore.proof.sealing import SealRefused
from eventstore.proof.verification import CheckpointNote, gaps, verify_answers, verify_events
from eventstore.proof.verifier import check
from projections.retention.erasure import erase
from tests.support.folders import temporary_folder
from tests.support.make import NOON
from tests.support.sealed_log import ACCOUNTS, KEY, OTHER_KEY, SUPPLIER, Log, assert_found, edited, new_log


def by_sql(name: str, *statements: str) -> Callable[[Log], None]:
    def change(log: Log) -> None:
        for statement in statements:
            log.admin.execute(statement)

    change.__name__ = f"by_sql_{name}"
    return change


def swapped(log: Log) -> None:
    for position, other in ((100, -1), (101, 100), (-1, 101)):
        log.admin.execute("UPDATE events SET position = %s WHERE position = %s", (other, position))


deleted_in_the_middle = by_sql("deleted_in_the_middle", "DELETE FROM events WHERE position = 100")


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


doubled = by_sql(
    "doubled",
    "ALTER TABLE events DROP CONSTRAINT events_pkey, DROP CONSTRAINT events_stream_version",
    "INSERT INTO events SELECT * FROM events WHERE position = 100",
)
cut = by_sql("cut", "DELETE FROM events WHERE position > 500")


def cut_without_a_trace(log: Log) -> None:
    log.cut(500)


def edited_with_its_leaf(log: Log) -> None:
    """Rebuild the stored tree over the edited event: only the checkpoints show the change."""
    edited("caused_by", "'nobody'")(log)
    log.forget_the_tree()


def payload_and_digest_edited(log: Log) -> None:
    before = value_of(log.admin, "SELECT state FROM events WHERE position = 100")
    other = hashlib.sha256(b"{}").hexdigest()
    state = msgspec.json.encode(msgspec.json.decode(before) | {"payload_sha256": other})
    log.admin.execute("UPDATE events SET state = %s WHERE position = 100", (state,))


payload_edited = by_sql(
    "payload_edited",
    "UPDATE payloads SET content = set_byte(content, 50, get_byte(content, 50) # 1)"
    " WHERE stream = (SELECT stream FROM events WHERE position = 100)",
)
payload_of_another = by_sql(
    "payload_of_another",
    "UPDATE payloads SET content = other.content FROM payloads AS other"
    " WHERE payloads.stream = (SELECT stream FROM events WHERE position = 100)"
    " AND other.stream = (SELECT stream FROM events WHERE position = 1)",
)
payload_deleted = by_sql(
    "payload_deleted", "DELETE FROM payloads WHERE stream = (SELECT stream FROM events WHERE position = 100)"
)
payload_key_deleted = by_sql(
    "payload_key_deleted", "DELETE FROM payload_keys WHERE stream = (SELECT stream FROM events WHERE position = 100)"
)


def erased_without_an_event(log: Log) -> None:
    payload_deleted(log)
    log.admin.execute(
        "UPDATE payload_keys SET key = NULL, erased_at = now()"
        " WHERE stream = (SELECT stream FROM events WHERE position = 100)"
    )


tree_edited = by_sql(
    "tree_edited", "UPDATE log_tiles SET hashes = set_byte(hashes, 40, get_byte(hashes, 40) # 1) WHERE level = 0"
)
checkpoint_edited = by_sql("checkpoint_edited", "UPDATE log_checkpoints SET note = replace(note, '12:00', '11:00')")


def checkpoints_deleted(log: Log) -> None:
    """Delete all checkpoints, also outside: events without checkpoint are not proved."""
    log.admin.execute("DELETE FROM log_checkpoints")
    for file in (log.folder / "outside").iterdir():
        file.unlink()


def sealed_with_an_answer(log: Log) -> Answer:
    answer = log.answer("supplier/ANSWERED")
    log.seal()
    assert log.problems() == []
    return answer


def answer_edited(column: str, value: str) -> Callable[[Log], None]:
    def edit(log: Log) -> None:
        sealed_with_an_answer(log)
        log.admin.execute(f"UPDATE remembered_answers SET {column} = {value}")

    edit.__name__ = f"answer_edited_{column}"
    return edit


def answer_removed(log: Log) -> None:
    sealed_with_an_answer(log)
    log.admin.execute("DELETE FROM remembered_answers")


answer_invented = by_sql("answer_invented", "INSERT INTO remembered_answers VALUES ('org POST /x key', '', 201, '{}')")


def answer_given_to_another_request(log: Log) -> None:
    sealed_with_an_answer(log)
    log.answer("supplier/OTHER")
    log.seal()
    log.admin.execute("UPDATE remembered_answers SET command_id = 'x' WHERE command_id LIKE '%ANSWERED%'")


payload_smuggled_in = by_sql(
    "payload_smuggled_in",
    "INSERT INTO payloads SELECT stream, sha256('x'), recorded_at, received_bytes, content, subject FROM payloads"
    " WHERE stream LIKE '%0000100'",
)
payload_of_an_unknown_stream = by_sql(
    "payload_of_an_unknown_stream", "UPDATE payloads SET stream = 'import/NORDWIND/NOBODY' WHERE stream LIKE '%0000100'"
)


def with_a_key(log: Log) -> None:
    command = CreateKey(key_id="k1", role="importer", suppliers=(SUPPLIER,), secret_sha256="0" * 64)
    with log.ledger(of_owner=True) as ledger:
        ledger.execute("organisation/Nordwind", command, at=NOON, by="t")
    log.seal()
    assert log.problems() == []


def key_forged(log: Log) -> None:
    """Insert an access key: the table of keys is enough to use the service, without an event."""
    with_a_key(log)
    log.admin.execute(
        "INSERT INTO access_key"
        " (key_id, organisation, role, suppliers, rate_per_s, secret_sha256, created_at, position)"
        " SELECT 'k2', organisation, 'operator', suppliers, 0, repeat('1', 64), created_at, position"
        " FROM access_key"
    )


def key_widened(log: Log) -> None:
    with_a_key(log)
    log.admin.execute("UPDATE access_key SET suppliers = suppliers || '{RIVAL}'")


def key_unrevoked(log: Log) -> None:
    with_a_key(log)
    with log.ledger(of_owner=True) as ledger:
        ledger.execute("organisation/Nordwind", RevokeKey(key_id="k1"), at=NOON, by="t")
    log.seal()
    assert log.problems() == []
    log.admin.execute("UPDATE access_key SET revoked_at = NULL")


checkpoint_row_edited = by_sql("checkpoint_row_edited", "UPDATE log_checkpoints SET branch = 7 WHERE size = 300")
HOLLOW = """CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$"""

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
    payload_edited: r"PAYLOAD  payload of import/NORDWIND/BENCH-0000100 does not match its digest",
    payload_of_another: r"PAYLOAD  payload of import/NORDWIND/BENCH-0000100 does not match its digest",
    payload_deleted: r"PAYLOAD  position 100 .* missing and was not erased",
    payload_key_deleted: r"PAYLOAD  payload of .* its key is missing",
    erased_without_an_event: r"PAYLOAD  position 100 .* was not erased",
    tree_edited: r"UNSURE  position 2 .*the stored tree itself was altered",
    checkpoint_edited: r"NOT SIGNED  in the database, 300: .*signature .* is wrong",
    answer_invented: r"WARNED  a remembered answer has no event",
    payload_smuggled_in: r"WARNED  payload 2d711642b726… of import/NORDWIND/BENCH-0000100: it has no event",
    payload_of_an_unknown_stream: r"WARNED  payload .* of import/NORDWIND/NOBODY: it has no event",
    checkpoint_row_edited: r"WARNED  the row of the checkpoint of 300 events differs from its note",
    by_sql(
        "readable_events",
        "CREATE OR REPLACE VIEW readable_events AS SELECT position, stream, version, topic, recorded_at, supplier,"
        " caused_by, command_id, code_version, readable_event(state) AS event"
        " FROM events WHERE position <> 100",
    ): r"WARNED  the view readable_events is missing, or differs",
    by_sql("stored_events", "DROP VIEW stored_events"): r"WARNED  the view stored_events is missing",
    by_sql("trigger", "ALTER TABLE events DISABLE TRIGGER USER"): r"WARNED  the trigger events_.* is disabled",
    by_sql("replica", "ALTER TABLE events ENABLE REPLICA TRIGGER events_are_append_only"): r"WARNED .* is disabled",
    by_sql("dropped", "DROP TRIGGER log_checkpoints_are_append_only ON log_checkpoints"): r"WARNED .* is missing",
    by_sql(
        "narrowed",
        "DROP TRIGGER events_are_append_only ON events",
        "CREATE TRIGGER events_are_append_only BEFORE DELETE ON events EXECUTE FUNCTION refuse_change()",
    ): r"WARNED  the trigger events_are_append_only on events does not refuse all changes",
    by_sql(
        "another",
        "CREATE TRIGGER mine BEFORE INSERT ON payloads EXECUTE FUNCTION refuse_change()",
    ): r"WARNED  the table payloads has a trigger mine that is not the ledger's",
    by_sql("hollow", HOLLOW): r"WARNED  the function refuse_change differs",
    by_sql("update", "GRANT UPDATE, DELETE ON events TO importledger"): r"WARNED  importledger .*DELETE, UPDATE on ev",
    by_sql("insert", "GRANT INSERT ON events TO importledger"): r"WARNED  importledger .*INSERT on events",
    by_sql("column", "GRANT UPDATE (state) ON events TO importledger"): r"WARNED  importledger .*UPDATE on events",
    by_sql("truncate", "GRANT TRUNCATE ON payloads TO PUBLIC"): r"WARNED  everybody .*TRUNCATE on payloads",
    by_sql("answers", "GRANT UPDATE ON remembered_answers TO importledger"): r"WARNED  .* on remembered_answers",
    by_sql("rule", "CREATE RULE r AS ON INSERT TO events DO INSTEAD NOTHING"): r"WARNED  a rule on events",
    by_sql("hidden_rows", "ALTER TABLE payloads ENABLE ROW LEVEL SECURITY"): r"WARNED  row-level security on payloads",
    by_sql("key", "ALTER TABLE events DROP CONSTRAINT events_stream_version"): r"WARNED  the constraint events_str",
}
COMMITTED: dict[Callable[[Log], None], str] = {
    checkpoints_deleted: r"UNANCHORED",
    answer_edited("body", "'{}'"): r"WARNED  position 601 \(supplier/ANSWERED\): the remembered answer is not the one",
    answer_edited("status", "200"): r"WARNED  position 601 .*is not the one",
    answer_edited("request_sha256", "'x'"): r"WARNED  position 601 .*is not the one",
    answer_removed: r"WARNED  position 601 \(supplier/ANSWERED\): the remembered answer is missing",
    answer_given_to_another_request: r"WARNED  position 601 .*is missing[\s\S]*WARNED  a remembered answer has",
    key_forged: r"WARNED  the access key k2 of Nordwind was made by no event",
    key_widened: r"WARNED  the access key k1 of Nordwind differs from the log",
    key_unrevoked: r"WARNED  the access key k1 of Nordwind differs from the log",
}


def test_a_copy_of_the_log_in_another_schema_is_warned_of(log: Log) -> None:
    """The service would use the copy, while verification reads the old tables."""
    log.admin.execute("CREATE SCHEMA importledger; CREATE TABLE importledger.events AS SELECT * FROM public.events")
    log.admin.execute("GRANT USAGE ON SCHEMA importledger TO importledger")
    with psycopg.connect(log.urls.service) as connection:
        assert_found(guards_off(connection), r"WARNED  the name events means importledger.events, and not the table")
    log.admin.execute("ALTER SCHEMA importledger RENAME TO aside")
    database = log.admin.info.dbname
    log.admin.execute(f"ALTER ROLE importledger IN DATABASE {database} SET search_path = aside, public")
    assert_found(guards_off(log.admin), r"WARNED  importledger has search_path=aside, public, and another schema has")


@pytest.mark.parametrize("statement", ["DELETE FROM log_tiles", "UPDATE log_tiles SET hashes = '\\x00'"])
def test_a_tree_that_lacks_hashes_is_named_and_made_anew(
    log: Log, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    monkeypatch.setattr("eventstore.proof.verification.CHUNK", 256)
    monkeypatch.setattr("eventstore.proof.verification.NEWEST_EVENTS", 256)
    log.admin.execute(f"{statement} WHERE level = 1")
    assert_found(log.problems(is_full=False), r"UNSURE  The stored tree is not whole")
    with pytest.raises(SealRefused, match="The stored tree is not whole"):
        log.seal()
    log.forget_the_tree()
    log.seal()
    assert log.problems(is_full=False) == []


def test_the_log_of_a_replica_role_is_warned_of(log: Log) -> None:
    database = log.admin.info.dbname
    log.admin.execute(f"ALTER ROLE importledger IN DATABASE {database} SET session_replication_role = replica")
    assert_found(log.problems(), r"WARNED  session_replication_role of importledger disables triggers")


def test_a_service_that_may_act_as_the_owner_is_warned_of(log: Log) -> None:
    log.admin.execute("CREATE ROLE owner_of_a_log")
    try:
        log.admin.execute("ALTER TABLE events OWNER TO owner_of_a_log")
        log.admin.execute("GRANT SELECT ON events TO importledger")
        assert log.problems() == []
        log.admin.execute("GRANT owner_of_a_log TO importledger")
        assert_found(log.problems(), r"WARNED  the service's role may act as owner_of_a_log, who owns the log")
    finally:
        log.admin.execute("REASSIGN OWNED BY owner_of_a_log TO CURRENT_USER; DROP OWNED BY owner_of_a_log")
        log.admin.execute("DROP ROLE owner_of_a_log")


def test_the_answers_of_an_erased_person_are_rightly_gone_and_wrongly_there(log: Log) -> None:
    log.admin.execute("UPDATE events SET command_id = 'c1' WHERE position = 100")
    log.admin.execute("INSERT INTO remembered_answers VALUES ('c1', 'x', 201, '{}')")
    log.admin.execute("CREATE TABLE hidden AS SELECT * FROM remembered_answers")
    erased(log)
    with psycopg.connect(log.urls.service) as connection:
        assert verify_answers(connection).problems == []
    log.admin.execute("INSERT INTO remembered_answers SELECT * FROM hidden")
    assert_found(log.problems(), r"WARNED  position 100 .*the person was erased but the answer is still there")


@pytest.mark.promise("verify-all-finds-remembered")
def test_payloads_that_no_event_speaks_of_are_not_counted_as_matching(log: Log) -> None:
    payload_smuggled_in(log)
    with psycopg.connect(log.urls.service) as connection:
        assert verify_payloads(connection).matching == ACCOUNTS


@pytest.fixture(scope="module")
def shared_log(postgres: PostgresUrls, filled_log: Path) -> Iterator[Log]:
    """A sealed log for all tests that roll their changes back."""
    with temporary_folder() as folder, new_log(postgres, filled_log, folder) as log:
        yield log


@pytest.mark.promise("verify-all-finds-remembered")
@pytest.mark.asvs("V16.4.2")
@pytest.mark.parametrize("tamper", TAMPERINGS, ids=lambda tamper: tamper.__name__.strip("<>"))
def test_tampering_is_found_and_named(shared_log: Log, tamper: Callable[[Log], None]) -> None:
    with shared_log.admin.transaction(force_rollback=True):
        tamper(shared_log)
        assert_found(shared_log.problems(), TAMPERINGS[tamper])


@pytest.mark.promise("verify-all-finds-remembered")
@pytest.mark.asvs("V16.4.2")
@pytest.mark.parametrize("tamper", COMMITTED, ids=lambda tamper: tamper.__name__.strip("<>"))
def test_tampering_with_what_was_written_later_is_found_and_named(log: Log, tamper: Callable[[Log], None]) -> None:
    tamper(log)
    assert_found(log.problems(), COMMITTED[tamper])


def test_a_log_that_was_rewritten_and_signed_anew_fails_against_any_kept_checkpoint(log: Log) -> None:
    edited("caused_by", "'nobody'")(log)
    log.cut(600)
    checkpoints_deleted(log)
    log.seal()
    assert log.problems() == []  # possible with key, database and access to the place outside
    assert_found(log.problems(with_first=True), r"REWRITTEN  .*300 events .*kept")


def test_another_key_is_found(log: Log) -> None:
    edited("caused_by", "'nobody'")(log)
    log.forget_the_tree()
    checkpoints_deleted(log)
    log.seal(OTHER_KEY)
    assert_found(log.problems(), r"NOT SIGNED  in the database, 600: .*not signed by the log's key")
    assert_found(log.problems(), r"UNANCHORED")


def test_a_new_key_goes_on_openly_from_what_the_former_one_has_signed(log: Log) -> None:
    with pytest.raises(SealRefused, match="has signed all events"):
        log.seal(OTHER_KEY, former_key=KEY.verifier)
    log.add(301, 310)
    with pytest.raises(SealRefused, match="Check that the sealing key is"):
        log.seal(OTHER_KEY)
    log.seal(OTHER_KEY, former_key=KEY.verifier)
    log.add(311, 320)
    newest = log.seal(OTHER_KEY)
    assert newest.checkpoint.origin == OTHER_KEY.name
    with psycopg.connect(log.urls.service) as connection:
        notes = [log.first_checkpoint, *(CheckpointNote(source, note) for source, note in log.outside.notes())]
        found = verify_events(connection, [KEY.verifier, OTHER_KEY.verifier], notes, is_full=True)
        assert (found.problems, found.checkpoints) == ([], 5)
        streams = [import_process.stream_of(SUPPLIER, f"BENCH-{number:07}") for number in (1, 315)]
        proof = log.folder / "proof.zip"
        write_proof(
            connection,
            proof,
            streams,
            (newest.checkpoint, newest.note),
            OTHER_KEY.verifier,
            further_notes={},
            payloads=False,
        )
    with zipfile.ZipFile(proof) as opened:
        holds, wrong = check(opened, OTHER_KEY.verifier, [])
    assert (len(holds), wrong) == (9, [])


def test_a_log_that_was_put_back_and_gone_on_with_is_neither_signed_nor_verified(log: Log) -> None:
    log.cut(300)
    with pytest.raises(SealRefused, match=r"TRUNCATED: the log has 300 events, and .* 600"):
        log.seal()
    log.admin.execute("UPDATE intake_stops SET ended_at = now()")
    log.add(1001, 1200)
    with pytest.raises(SealRefused, match=r"does not continue the checkpoint of 600 events"):
        log.seal()
    assert_found(log.problems(), r"REWRITTEN  .*600 events.*outside")


def test_what_is_not_anchored_is_named(log: Log) -> None:
    log.add(301, 310)
    with psycopg.connect(log.urls.service) as connection:
        found = verify_events(connection, [KEY.verifier], [log.first_checkpoint], is_full=True)
    assert (found.head, found.anchored, found.checkpoints, found.problems) == (630, 300, 1, [])


def test_without_all_the_newest_events_are_hashed_and_the_tree_is_taken_for_the_others(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventstore.proof.verification.CHUNK", 256)
    monkeypatch.setattr("eventstore.proof.verification.NEWEST_EVENTS", 256)
    assert log.problems(is_full=False) == []
    edited("caused_by", "'nobody'")(log)
    assert log.problems(is_full=False) == []
    log.admin.execute("UPDATE events SET caused_by = 'nobody' WHERE position = 590")
    assert_found(log.problems(is_full=False), r"ALTERED  position 590 ")
    log.admin.execute("UPDATE log_tiles SET hashes = set_byte(hashes, 9, 9) WHERE level = 1")
    assert_found(log.problems(is_full=False), r"REWRITTEN .* checkpoint of 300 events .* the first that disagrees")


def vacuumed(log: Log) -> None:
    for statement in ("VACUUM (FULL, ANALYZE) events", "REINDEX TABLE events", "CLUSTER events USING events_pkey"):
        log.admin.execute(statement)


def rebuilt(log: Log) -> None:
    log.admin.execute("TRUNCATE import_status, account_record")
    log.forget_the_tree()
    log.seal()


def erased(log: Log) -> None:
    with log.ledger(of_owner=True) as ledger:
        assert erase(ledger, SUPPLIER, "BENCH-0000100", reason="DSR-1", at=now(), by="t") is not None


def upgraded(log: Log) -> None:
    migrate(log.urls.admin)
    log.admin.execute("ALTER TABLE events ADD COLUMN of_a_later_version text")
    with log.ledger() as ledger:
        ledger.execute("supplier/LATER", CreateSupplier(), at=now() + timedelta(days=1), by="t")


def backed_up(log: Log) -> None:
    write_backup(log.urls.service, log.folder / "backup")


@pytest.mark.parametrize("change", [vacuumed, rebuilt, erased, upgraded, backed_up])
def test_what_is_harmless_raises_nothing(log: Log, change: Callable[[Log], None]) -> None:
    change(log)
    assert log.problems(with_first=True) == []
    log.seal()
    assert log.problems(with_first=True) == []
    with psycopg.connect(log.urls.service) as connection:
        assert list(gaps(connection)) == []


def test_an_erased_person_who_is_put_back_is_found(log: Log) -> None:
    log.admin.execute("CREATE TABLE hidden AS SELECT * FROM payloads")
    erased(log)
    log.admin.execute("INSERT INTO payloads SELECT * FROM hidden WHERE stream LIKE '%%0000100' ON CONFLICT DO NOTHING")
    assert_found(log.problems(), r"PAYLOAD  import/NORDWIND/BENCH-0000100 was erased but still has a payload")


def test_the_database_itself_refuses_to_change_a_checkpoint(log: Log) -> None:
    log.admin.execute("SET session_replication_role = origin")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        log.admin.execute("DELETE FROM log_checkpoints")
