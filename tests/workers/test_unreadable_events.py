"""An event that cannot be read does not stop any reader of the log: its own stream is left out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import CancelImport
from eventstore.clock import now
from eventstore.errors import StreamUnreadable
from eventstore.events import Unreadable
from eventstore.log import follow
from eventstore.log.columns import log_head
from eventstore.log.ledger import Ledger
from eventstore.operations.export import export, header_of, read_export
from eventstore.proof.payload_verification import verify_payloads
from eventstore.proof.sealing import read_leaves
from eventstore.proof.verification import verify_answers, verify_events
from projections import FOLLOWING, PLATFORM, PROJECTIONS
from projections.versions.build import administrator
from projections.versions.reading import read_erasures
from projections.versions.versions import build_version, version_lock
from projections.views.access_key import wrong_keys
from tests.support.following import follow as catch_up
from tests.support.make import an_account
from tests.support.messages import queued
from tests.support.staging import SUPPLIER, stage, status
from tests.support.stored_events import STORED, STREAMS, TOPICS
from workers.actors.process_imports import ImportProcessor
from workers.broker import IMPORTS, BrokerDispatcher, in_process_broker
from workers.followers.ended_imports import EndedImports, EndedLine
from workers.followers.relay import Relay

UNREADABLE = (
    b"\xff\xfe",
    b"",
    b"[]",
    b'{"payload',
    b'{"payload_sha256":"\xc3"}',
    b'{"a":' + b"[" * 20_000,
    b'{"attempt":1e400}',
    b'{"not_before":"2026-11-01T12:00:00","payload_sha256":"' + b"a" * 64 + b'","content_sha256":"","payload_bytes":1}',
)


class Log:
    """A log with arbitrary events, and all its readers."""

    def __init__(self, ledger: Ledger, database: PostgresUrls, admin: psycopg.Connection[Any], file: Path) -> None:
        self.ledger, self.admin, self.urls, self._file = ledger, admin, database, file
        self.broker = in_process_broker()
        self.lines: list[EndedLine] = []
        self.relay = Relay(ledger, BrokerDispatcher(self.broker))
        self._ended = EndedImports(ledger, self.lines.extend)
        self._number = 0

    def put(self, topic: str, state: bytes, stream: str = "") -> str:
        """Append an event to a new stream, and return the stream."""
        self._number += 1
        stream = stream or STREAMS[topic].replace("/1/x", f"/{self._number}/x")
        self.admin.execute(
            "INSERT INTO events (position, stream, version, topic, recorded_at, supplier, caused_by, code_version,"
            " state) SELECT coalesce(max(position), 0) + 1, %s, 1, %s, clock_timestamp(), 'S', '', '', %s FROM events",
            (stream, topic, state),
        )
        return stream

    def is_read_by_all(self) -> None:
        """Assert that all followers, and all readers of the whole log, reach its end."""
        with self.ledger.connection() as connection:
            place = follow.checkpoint(connection, "relay")
            self.relay._read_log(connection, place)
            self.relay._enqueue(IMPORTS, 0)
            self._ended.write_lines(connection)
            list(read_erasures(connection, after=0))
            end = log_head(connection)
            assert [follow.checkpoint(connection, name) for name in ("relay", "ended imports")] == [end, end]
        catch_up(self.ledger)
        behind = self.admin.execute(
            "SELECT name FROM projection_versions WHERE state = 'live' AND name = ANY(%s) AND position <> %s",
            ([projection.name for projection in FOLLOWING], end),
        ).fetchall()
        assert behind == []
        self._is_verified_and_exported()

    def _is_verified_and_exported(self) -> None:
        with psycopg.connect(self.urls.admin) as connection:
            read_leaves(connection, 0, log_head(connection))
            verify_events(connection, [], [], is_full=True)
            verify_payloads(connection)
            verify_answers(connection)
            list(wrong_keys(connection))
            assert connection.execute("SELECT count(event) = count(*) FROM readable_events").fetchone() == (True,)
            export(connection, self._file, header_of("S", None, None), _ALL, payloads=True)
        for line in read_export(self._file):
            line.recorded() if hasattr(line, "recorded") else None
        self._file.unlink()


_ALL = dict.fromkeys(("first", "last"))


@pytest.fixture
def log(ledger: Ledger, database: PostgresUrls, folder: Path) -> Iterator[Log]:
    with administrator(database.admin) as admin:
        yield Log(ledger, database, admin, folder / "export.zst")


@pytest.mark.promise("event-cannot-read-stops")
def test_an_event_whose_text_cannot_be_read_stops_no_reader_and_no_other_account(log: Log) -> None:
    first = stage(log.ledger, an_account(SUPPLIER, 1))
    streams = [log.put("import_staged.v1", state) for state in UNREADABLE]
    last = stage(log.ledger, an_account(SUPPLIER, 2))
    log.is_read_by_all()
    enqueued = [name for message in queued(log.broker) for name in message]
    assert enqueued == [first, last]
    ImportProcessor(log.ledger, worker=lambda: 7).process([first, *streams, last])
    assert [status(log.ledger, stream) for stream in (first, last)] == ["PROCESSED", "PROCESSED"]
    for stream in streams:
        with pytest.raises(StreamUnreadable):
            log.ledger.execute(stream, CancelImport(), at=now(), by="t")
        [event] = log.ledger.history(stream)
        assert isinstance(event.event, Unreadable)


def test_an_event_in_a_stream_of_another_kind_stops_no_reader(log: Log) -> None:
    for topic in TOPICS:
        state = (STORED / f"{topic}.json").read_bytes().strip()
        for kind in ("unknown/S/", "no-stream-", "import/", "participant/", "organisation/", "run/1/"):
            log.put(topic, state, kind + topic)
    log.is_read_by_all()


OVERWRITTEN = st.tuples(
    st.sampled_from(sorted(TOPICS)), st.binary(max_size=40), st.integers(0, 300), st.integers(0, 40)
)
"""Topic of an event, and bytes that replace a part of its state: bytes, place, length."""


def test_no_bytes_in_the_log_stop_a_reader_or_a_rebuild(log: Log) -> None:
    @settings(max_examples=25)
    @given(st.lists(OVERWRITTEN, min_size=10, max_size=20))
    def reads(events: list[tuple[str, bytes, int, int]]) -> None:
        for topic, written, place, length in events:
            state = (STORED / f"{topic}.json").read_bytes().strip()
            place %= len(state)
            log.put(topic, state[:place] + written + state[place + length :])
        log.is_read_by_all()

    reads()
    for projection in {*PROJECTIONS} - {PLATFORM}:  # many of these events have the same account number
        with version_lock(log.admin, projection):
            build_version(log.urls.admin, log.admin, projection)


def test_an_event_of_a_year_that_cannot_be_read_is_refused_by_the_database(log: Log) -> None:
    for moment in ("infinity", "-infinity", "20000-01-01Z", "0044-03-15 BC"):
        with pytest.raises(psycopg.errors.CheckViolation, match="events_recorded_at_is_readable"):
            log.admin.execute(
                "INSERT INTO events (position, stream, version, topic, recorded_at, caused_by, code_version, state)"
                " VALUES (1, 'import/S/1', 1, 'import_staged.v1', %s, '', '', '')",
                (moment,),
            )
