"""Envelope of an event, and its stored form: JSON under a permanent topic.

Every reader of the log decodes events with this module. An event that cannot be decoded is `Unreadable`; other streams
are not affected.
"""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Any

import msgspec

from eventstore.aggregates.aggregate import Aggregate, Event
from eventstore.aggregates.customer_mail import CUSTOMER_MAIL
from eventstore.aggregates.disclosure import DISCLOSURE
from eventstore.aggregates.import_process import IMPORT_PROCESS, SubjectErased
from eventstore.aggregates.import_process import stream_of as import_stream
from eventstore.aggregates.organisation import ORGANISATION
from eventstore.aggregates.owner_task import OWNER_TASK
from eventstore.aggregates.participant import PARTICIPANT, ContactsErased
from eventstore.aggregates.post_account import POST_ACCOUNT
from eventstore.aggregates.post_account import identity_of as record_identity
from eventstore.aggregates.price_sheet import PRICE_SHEET
from eventstore.aggregates.run import REFUSALS, RUN
from eventstore.aggregates.supplier import SUPPLIER
from eventstore.aggregates.user import USER

_ALL = (
    *(IMPORT_PROCESS, SUPPLIER, ORGANISATION, PARTICIPANT, PRICE_SHEET, *POST_ACCOUNT, CUSTOMER_MAIL, REFUSALS, RUN),
    *(USER, DISCLOSURE, OWNER_TASK),
)
AGGREGATES = {aggregate.prefix: aggregate for aggregate in _ALL}
SUPPLIER_PREFIXES = {
    aggregate.prefix
    for aggregate in (IMPORT_PROCESS, SUPPLIER, *POST_ACCOUNT, CUSTOMER_MAIL, REFUSALS, RUN, DISCLOSURE)
}
"""Kinds of streams that belong to a supplier."""
_RECORD_PREFIXES = {aggregate.prefix for aggregate in POST_ACCOUNT}
ERASURES = {"subject_erased.v1": SubjectErased, "contacts_erased.v1": ContactsErased}
"""Event classes of erasures by topic: for persons of an import, and for contacts of a participant."""
SUBJECT = r"regexp_replace({}, '^(?!import/|participant/)[^/]+/(.*)/[^/]*$', 'import/\1')"
"""SQL expression that computes `subject_of` from the column of stream ids."""

TOPIC_OF = {event: topic for aggregate in AGGREGATES.values() for topic, event in aggregate.topics.items()}
"""Topics by kind of event."""
_decoders = {
    aggregate.prefix: {topic: msgspec.json.Decoder(event) for topic, event in aggregate.topics.items()}
    for aggregate in AGGREGATES.values()
}
_encoder = msgspec.json.Encoder()


class Unreadable(Event, frozen=True):
    """Event that this code version cannot read: its stored form and the error."""

    topic: str
    state: str
    error: str


class Metadata(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Request that caused an event; empty fields are unknown.

    It is stored as a member of the event's JSON. `request_id` is the request's X-Request-Id, `traceparent` its span in
    a trace (W3C). Both consist of hexadecimal digits and cannot name a person, so they remain after an erasure.
    """

    request_id: str = ""
    traceparent: str = ""


NO_METADATA = Metadata()

origin: ContextVar[Metadata] = ContextVar("origin", default=NO_METADATA)
"""Metadata of the request that is being answered, for the events of its commands.

The HTTP layer sets it at the beginning of a request. Threads and tasks of the request inherit it. Work without a
request, such as work of workers, has no metadata.
"""


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """Event with its position in the log.

    `position` is 0 until the event is appended. `recorded_at` is UTC from the database's clock, read under the log's
    lock, so a later position never has an earlier `recorded_at`. Before the append, and in the result of an append,
    `recorded_at` is the writer's time.
    """

    stream: str
    version: int
    event: Event
    recorded_at: datetime
    supplier: str | None
    caused_by: str
    command_id: str | None = None
    position: int = 0
    code_version: str = ""
    metadata: Metadata = NO_METADATA

    @property
    def topic(self) -> str:
        return self.event.topic if isinstance(self.event, Unreadable) else TOPIC_OF[type(self.event)]

    @property
    def state(self) -> bytes:
        state = _encoder.encode(self.event)
        if self.metadata is NO_METADATA:
            return state
        return with_member(state, b"metadata", _encoder.encode(self.metadata))


def with_member(state: bytes, name: bytes, value: bytes) -> bytes:
    """Return an event's state, a JSON object, with one more member. `value` is JSON."""
    comma = b"," if len(state) > len(b"{}") else b""
    return state[:-1] + comma + b'"' + name + b'":' + value + b"}"


class _WithMetadata(msgspec.Struct, frozen=True):
    metadata: Metadata = NO_METADATA


_with_metadata = msgspec.json.Decoder(_WithMetadata)


def metadata_of(state: bytes) -> Metadata:
    """Return the metadata in a stored state, or empty metadata."""
    if b'"metadata":' not in state:
        return NO_METADATA
    try:
        return _with_metadata.decode(state).metadata
    except _NOT_DECODED:
        return NO_METADATA


def aggregate_of(stream: str) -> Aggregate:
    """Return the aggregate of a stream."""
    return AGGREGATES[stream.split("/", 1)[0]]


def supplier_of(stream: str) -> str | None:
    """Return the supplier of a stream; None for streams of market participants, price sheets and organisations."""
    prefix, rest = stream.split("/", 1)
    return rest.split("/", 1)[0] if prefix in SUPPLIER_PREFIXES else None


def supplier_in(sentence: str) -> str | None:
    """Return the supplier of the first stream that a sentence names, or None."""
    match = _STREAM_IN.search(sentence)
    return match[2] if match and match[1] in SUPPLIER_PREFIXES else None


def subject_of(stream: str) -> str | None:
    """Return the stream of the import or participant whose key encrypts a stream's payloads.

    None for streams without personal data.
    """
    prefix = stream.split("/", 1)[0]
    if prefix in (IMPORT_PROCESS.prefix, PARTICIPANT.prefix):
        return stream
    if prefix in _RECORD_PREFIXES:
        return import_stream(*record_identity(stream)[:2])
    return None


def read_event(stream: str, topic: str, state: bytes) -> Event:
    """Return the stored event, or `Unreadable` if it cannot be read as an event of this stream. Never raises."""
    prefix = stream.split("/", 1)[0]
    decoder = _decoders.get(prefix, {}).get(topic)
    if decoder is None:
        return _unreadable(topic, state, "streams of this kind have no such topic")
    if stream.count("/") < AGGREGATES[prefix].parts - 1:
        return _unreadable(topic, state, "the stream's id must have more parts")
    if b"\\u0000" in state and _NUL.search(state):
        return _unreadable(topic, state, "text must not hold NUL")
    try:
        return decoder.decode(state)
    except _NOT_DECODED as error:
        return _unreadable(topic, state, f"{type(error).__name__}: {error}")


def payload_digest(stream: str, topic: str, state: bytes) -> str | None:
    """Return the digest of the payload that was stored with an event; None if the event has no payload or is
    unreadable. Also None for events of e-mails, which name the payload that was stored with the account's import.
    """
    event = None if topic.startswith("mail_") else read_event(stream, topic, state)
    digest: str | None = getattr(event, "payload_sha256", None)
    return digest


def recorded_event(
    position: int,
    stream: str,
    version: int,
    topic: str,
    recorded_at: datetime,
    supplier: str | None,
    caused_by: str,
    command_id: str | None,
    code_version: str,
    state: bytes,
) -> Recorded:
    """Return the event of a row of `events`, without its metadata, which few readers need. Never raises."""
    event = read_event(stream, topic, state)
    if not isinstance(event, Unreadable) and supplier != supplier_of(stream):
        event = _unreadable(topic, state, "the supplier must be that of the stream")
    return Recorded(stream, version, event, recorded_at, supplier, caused_by, command_id, position, code_version)


def recorded_of(row: Mapping[str, Any]) -> Recorded:
    """Return the event of a row, with its metadata. The row maps names of columns to values. Never raises."""
    return msgspec.structs.replace(recorded_event(**row), metadata=metadata_of(row["state"]))


_STREAM_IN = re.compile(rf"\b({'|'.join(AGGREGATES)})/([A-Za-z0-9_-]{{0,32}})")
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_NOT_DECODED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Errors that a decoder raises for undecodable bytes."""


def _unreadable(topic: str, state: bytes, error: str) -> Unreadable:
    return Unreadable(topic=topic, state=state.decode("utf-8", "replace"), error=error)
