"""Payloads are encrypted with a key per import process, and races leave none unreadable."""

import asyncio
import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import StageImport, stream_of
from eventstore.aggregates.participant import ImportParticipant
from eventstore.aggregates.post_account import DELIVERY_NOTE, ImportRecord
from eventstore.aggregates.post_account import stream_of as record_stream
from eventstore.errors import AccountErased, VersionConflict
from eventstore.log import payloads as module
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import (
    Payload,
    PayloadErased,
    PayloadId,
    each_body,
    in_batches,
    is_readable,
    random_key,
    read_payload,
)
from projections import INLINE
from tests.support.databases import Admin
from tests.support.dictionaries import ANOTHER, with_another_dictionary
from tests.support.make import NOON

STREAM = stream_of("NORDWIND", "NW-1")
RECORD = record_stream(DELIVERY_NOTE, "NORDWIND", "NW-1", "reference")


def stage(payload: Payload) -> StageImport:
    digest = payload.sha256.hex()
    return StageImport(payload_sha256=digest, content_sha256=digest, payload_bytes=payload.received_bytes)


def record(payload: Payload) -> ImportRecord:
    digest = payload.sha256.hex()
    return ImportRecord(
        account_number="A-1", payload_sha256=digest, content_sha256=digest, cancellation_sha256="", is_cancelled=False
    )


@pytest.mark.asvs("V11.3.2", "V11.3.3")
@given(st.binary(max_size=2_000))
def test_what_is_encrypted_is_opened_with_its_key_in_its_stream_only(body: bytes) -> None:
    stored = Payload.of(body).encrypted(STREAM, None, subject=STREAM)
    key = stored.new_key
    assert key is not None
    assert read_payload(STREAM, stored.sha256, stored.content, key) == body
    assert stored.subject is None
    assert not is_readable(stored.content, None)
    with pytest.raises(PayloadErased):
        read_payload(STREAM, stored.sha256, stored.content, None)
    altered = stored.content[:-1] + bytes([stored.content[-1] ^ 1])
    for stream, content, opener in (
        (STREAM + "x", stored.content, key),
        (STREAM, altered, key),
        (STREAM, stored.content, random_key()),
        (STREAM, stored.content[:20], key),
        (STREAM, b"\x01", key),
        (STREAM, b"", key),
    ):
        with pytest.raises(ValueError, match="does not match its digest"):
            read_payload(stream, stored.sha256, content, opener)


def test_what_a_newer_version_has_compressed_is_told_from_what_was_altered() -> None:
    body, content = with_another_dictionary()
    with pytest.raises(ValueError, match=f"cannot be read: it needs dictionary {ANOTHER}"):
        read_payload("participant/1", hashlib.sha256(body).digest(), content, None)


@pytest.mark.asvs("V11.5.1")
def test_no_two_new_keys_are_the_same() -> None:
    made = [Payload.of(b"{}").encrypted(STREAM, None, subject=STREAM) for _ in range(100)]
    assert len({payload.new_key for payload in made}) == len({payload.content[:13] for payload in made}) == 100
    assert {len(payload.new_key or b"") for payload in made} == {32}


@given(st.lists(st.integers(0, 30)), st.integers(0, 50))
@example([31], 30)
def test_pieces_have_everything_in_order_and_are_no_larger_than_they_may(sizes: list[int], most: int) -> None:
    pieces = [*in_batches(sizes, lambda size: size, most)]
    assert [size for piece in pieces for size in piece] == sizes
    assert all(piece and (len(piece) == 1 or sum(piece) <= most) for piece in pieces)
    for piece, following in pairwise(pieces):
        assert sum(piece) + following[0] > most, "it would have had room in the piece before"


def keys(database: PostgresUrls) -> dict[str, bytes]:
    with psycopg.connect(database.admin) as connection:
        return dict(connection.execute("SELECT stream, key FROM payload_keys").fetchall())


def test_an_import_and_what_is_attached_to_its_account_share_a_key(
    ledger: Ledger, database: PostgresUrls, admin: Admin
) -> None:
    first, second, note = (Payload.of(body) for body in (b"one", b"two", b"note"))
    ledger.execute(STREAM, stage(first), at=NOON, by="t", payload=first)
    ledger.execute(STREAM, stage(second), at=NOON, by="t", payload=second)
    ledger.execute(RECORD, record(note), at=NOON, by="t", payload=note)
    assert list(keys(database)) == [STREAM]
    assert ledger.payloads({STREAM: second.sha256.hex(), RECORD: note.sha256.hex()}) == {
        STREAM: b"two",
        RECORD: b"note",
    }
    rows = admin.execute("SELECT content FROM payloads").fetchall()
    admin.execute("DELETE FROM payload_keys")
    assert all(content.startswith(b"\x01") for (content,) in rows)
    assert ledger.payloads({STREAM: second.sha256.hex(), RECORD: note.sha256.hex()}) == {}


def test_a_record_that_speaks_of_no_person_needs_no_key(ledger: Ledger, database: PostgresUrls) -> None:
    payload, stream = Payload.of(b"{}", has_person=False), "participant/O/9900000000001"
    command = ImportParticipant(payload_sha256=payload.sha256.hex())
    ledger.execute(stream, command, at=NOON, by="t", payload=payload)
    assert keys(database) == {}
    assert ledger.payloads({stream: payload.sha256.hex()}) == {stream: b"{}"}


def test_contacts_of_a_market_participant_are_encrypted_with_a_key_of_its_own(
    ledger: Ledger, database: PostgresUrls
) -> None:
    payload, stream = Payload.of(b"{}"), "participant/O/9900000000001"
    ledger.execute(stream, ImportParticipant(payload_sha256=payload.sha256.hex()), at=NOON, by="t", payload=payload)
    assert list(keys(database)) == [stream]
    assert ledger.payloads({stream: payload.sha256.hex()}) == {stream: b"{}"}


def test_of_two_who_stage_the_same_new_import_at_once_neither_leaves_what_cannot_be_read(
    database: PostgresUrls,
) -> None:
    ledgers = [Ledger(database.service, views=INLINE) for _ in range(2)]

    async def begin(ledger: Ledger, stream: str, payload: Payload) -> None:
        try:
            await ledger.begin(stream, stage(payload), at=NOON, by="t", payload=payload)
        except VersionConflict:
            await asyncio.to_thread(ledger.execute, stream, stage(payload), at=NOON, by="t", payload=payload)

    async def race() -> dict[str, list[Payload]]:
        sent: dict[str, list[Payload]] = {}
        for n in range(30):
            stream = stream_of("S", str(n))
            sent[stream] = [Payload.of(f"{n} {who}".encode()) for who in range(2)]
            await asyncio.gather(
                *(begin(ledger, stream, body) for ledger, body in zip(ledgers, sent[stream], strict=True))
            )
        return sent

    for stream, payloads in asyncio.run(race()).items():
        for payload in payloads:
            assert ledgers[0].payloads({stream: payload.sha256.hex()}).keys() == {stream}
    for ledger in ledgers:
        ledger.close()


def test_whoever_needs_a_key_that_is_not_there_yet_gets_the_same(database: PostgresUrls) -> None:
    """Several records of an account without key arrive at once."""
    with ExitStack() as stack, ThreadPoolExecutor(8) as pool:
        ledgers = [stack.enter_context(closing(Ledger(database.service, views=INLINE))) for _ in range(4)]

        def attach(n: int) -> tuple[str, Payload]:
            stream, payload = record_stream(DELIVERY_NOTE, "NORDWIND", "OLD", str(n)), Payload.of(str(n).encode())
            ledgers[n % 4].execute(stream, record(payload), at=NOON, by="t", payload=payload)
            return stream, payload

        attached = list(pool.map(attach, range(40)))
        assert len(ledgers[0].payloads({stream: payload.sha256.hex() for stream, payload in attached})) == 40


def test_nothing_about_an_erased_person_is_stored(ledger: Ledger, admin: Admin) -> None:
    admin.execute("INSERT INTO payload_keys (stream, erased_at) VALUES (%s, now())", (STREAM,))
    note = Payload.of(b"note")
    with pytest.raises(AccountErased):
        ledger.execute(RECORD, record(note), at=NOON, by="t", payload=note)
    assert ledger.history(RECORD) == []


def kept(ledger: Ledger, sizes: Sequence[int]) -> dict[PayloadId, bytes]:
    """Store payloads of these sizes, each of its own import; return the bodies by name."""
    bodies = {}
    for number, size in enumerate(sizes):
        payload, stream = Payload.of(bytes([number]) * size), stream_of("S", str(number))
        ledger.execute(stream, stage(payload), at=NOON, by="t", payload=payload)
        bodies[stream, payload.sha256.hex()] = bytes([number]) * size
    return bodies


def test_of_many_payloads_few_are_in_memory_and_none_is_left_out(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_OPEN_BYTES", 100)
    monkeypatch.setattr(module, "AT_A_TIME", 2)
    sizes = [40, 60, 1, 500, 98, 2, 100]
    bodies = kept(ledger, sizes)
    together: list[list[bytes]] = []
    fetchall = psycopg.Cursor.fetchall

    def counting(cursor: psycopg.Cursor[Any]) -> list[Any]:
        rows = fetchall(cursor)
        together.append([row[1] for row in rows if row[1] is not None])
        return rows

    with ledger.connection() as connection:
        monkeypatch.setattr(psycopg.Cursor, "fetchall", counting)
        read = [*module.read_payloads(connection, bodies)]
    assert read == [*bodies.items()]
    assert [len(contents) for contents in together] == [1, 1, 1, 1, 1, 1, 0, 1], "40; 60; 1; 500; 2; 98; none; 100"


@pytest.mark.parametrize("most", [1, 8_000_000])
def test_bodies_are_taken_in_the_order_and_as_often_as_they_were_asked_for(
    ledger: Ledger, admin: Admin, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(module, "MAX_OPEN_BYTES", most)
    first, second, third, erased = kept(ledger, [3, 3, 3, 3])
    admin.execute("DELETE FROM payload_keys WHERE stream = %s", (erased[0],))
    wanted = [first, erased, second, first, third]
    with ledger.connection() as connection:
        bodies = [*each_body(connection, wanted)]
    one, two, three = (bytes([number]) * 3 for number in range(3))
    assert bodies == [one, None, two, one, three]


def test_a_digest_that_is_none_is_an_error_of_its_own_body_and_its_case_does_not_matter(ledger: Ledger) -> None:
    first, second = kept(ledger, [3, 3])
    wanted = [("import/S/0", "zz"), (first[0], first[1].upper()), second]
    with ledger.connection() as connection:
        error, *bodies = each_body(connection, wanted)
    assert str(error) == "the payload of import/S/0 has no digest"
    assert bodies == [bytes([number]) * 3 for number in range(2)]
