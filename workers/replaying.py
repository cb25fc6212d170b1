"""Running today's code and rules over a history: which events would be decided otherwise, which accounts judged so.

The same for a file, whose lines come in the log's order, and for the streams of a part of the log.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.rows import dict_row

from eventstore.aggregates import supplier
from eventstore.aggregates.import_process import ImportErrored, ImportProcess, ImportProcessed
from eventstore.aggregates.supplier import Supplier
from eventstore.events import AGGREGATES, Recorded, recorded_of, supplier_of
from eventstore.log.columns import SELECT_EVENTS
from eventstore.log.payloads import Bodies, PayloadId
from eventstore.replay import Replay
from market.judging import Terms
from projections.versioning.reading import Slice
from workers.process_imports import judged_account

MAX_TOLD = 100
AT_ONCE = 2_000
"""Events that are read at a time."""
Breathe = Callable[[], None]
"""Called again and again while a part is done: lets imports go first, and keeps the lease."""

_SELECT = (
    SELECT_EVENTS
    + """WHERE position <= %(upto)s
  AND (%(supplier)s::text IS NULL OR supplier = %(supplier)s)
  AND (%(after_stream)s::text IS NULL OR stream > %(after_stream)s)
  AND (%(upto_stream)s::text IS NULL OR stream <= %(upto_stream)s)
ORDER BY stream, version
"""
)
_SELECT_STREAM = SELECT_EVENTS + "WHERE stream = %(stream)s AND position <= %(upto)s ORDER BY version"


class Different(msgspec.Struct, frozen=True):
    """An event that would be decided, or an account that would be judged, in another way; `detail` is a sentence."""

    position: int
    stream: str
    detail: str


class Replayed(msgspec.Struct):
    """What was replayed, how much would end differently, and the first of that by position."""

    events: int = 0
    streams: int = 0
    payloads: int = 0
    partial_streams: int = 0
    different: int = 0
    differences: list[Different] = []

    def note(self, recorded: Recorded, sentence: str) -> None:
        """One more that is different."""
        self.different += 1
        self.differences.append(Different(recorded.position, recorded.stream, sentence))
        if len(self.differences) > 10 * MAX_TOLD:
            self.differences = _first(self.differences)

    def add(self, other: "Replayed") -> None:
        """What another part of the log has come to."""
        for name in ("events", "streams", "payloads", "partial_streams", "different"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.differences = _first([*self.differences, *other.differences])


def _first(differences: Sequence[Different]) -> list[Different]:
    return sorted(differences, key=attrgetter("position"))[:MAX_TOLD]


def judgement(
    process: ImportProcess | None, recorded: Recorded, body: tuple[str, bytes] | None, terms: Callable[[], Terms]
) -> Iterator[str]:
    """Whether today's rules say of the payload, which comes with its digest, what was said of it then."""
    if not isinstance(recorded.event, ImportProcessed | ImportErrored) or body is None:
        return
    digest, content = body
    if process is None or process.staged is None or process.staged.payload_sha256 != digest:
        return
    findings = judged_account(content, process, terms(), recorded.recorded_at)
    is_refused = not hasattr(findings, "external_account_number")
    if isinstance(recorded.event, ImportProcessed) and is_refused:
        yield f"was processed; today's rules refuse it: {getattr(findings, 'detail', '')}"
    elif isinstance(recorded.event, ImportErrored) and _is_of_rules(recorded.event) and not is_refused:
        yield "was refused; today's rules accept it"


def terms_of(then: Supplier | None) -> Terms:
    """The terms by a supplier's settings; the standard ones of a supplier that is not known."""
    then = then or Supplier()
    return Terms(strictness=then.strictness, unknown_fields=then.unknown_fields)


def _is_of_rules(event: ImportErrored) -> bool:
    """Whether rules refused it, and not what was missing then, which a replay cannot know."""
    missing = ("market_participant_not_found@", "path_does_not_exist_in_file_store@")
    return event.code == "account_failed_validation" and not any(p.startswith(missing) for p in event.problems)


def replay_slice(
    connection: Connection[Any], part: Slice, *, supplier_code: str | None, upto: int, breathe: Breathe = lambda: None
) -> Replayed:
    """Replay the streams of a part of the log, up to a position, in the connection's transaction."""
    replayed, suppliers = Replayed(), _Suppliers(connection, upto)
    wanted = {"upto": upto, "supplier": supplier_code, "after_stream": part.after, "upto_stream": part.upto}
    with connection.cursor("replay", binary=True, row_factory=dict_row) as cursor:
        cursor.execute(_SELECT, wanted)
        rest: list[Recorded] = []
        while rows := cursor.fetchmany(AT_ONCE):
            breathe()
            events = rest + [recorded_of(row) for row in rows]
            last = events[-1].stream  # it may go on
            rest = [one for one in events if one.stream == last]
            _replay_streams(connection, events[: len(events) - len(rest)], suppliers, replayed)
        _replay_streams(connection, rest, suppliers, replayed)
    replayed.differences = _first(replayed.differences)
    return replayed


def _replay_streams(
    connection: Connection[Any], events: Sequence[Recorded], suppliers: "_Suppliers", replayed: Replayed
) -> None:
    """Whole streams, one after the other."""
    bodies = Bodies(connection, _judged_places(events))
    for stream, history in groupby(events, key=attrgetter("stream")):
        if stream.split("/", 1)[0] in AGGREGATES:
            _replay_stream(stream, [*history], bodies, suppliers, replayed)


def _replay_stream(
    stream: str,
    history: Sequence[Recorded],
    bodies: Bodies,
    suppliers: "_Suppliers",
    replayed: Replayed,
) -> None:
    folded = Replay()
    body: tuple[str, bytes] | None = None
    for recorded in history:
        digest = getattr(recorded.event, "payload_sha256", "")
        if (staged := bodies.take(stream, digest)) is not None:
            body = (digest, staged)  # the newest of a stream is what is processed
        for divergence in folded.divergences([recorded]):
            replayed.note(recorded, divergence.says)
        if not isinstance(recorded.event, ImportProcessed | ImportErrored):
            continue
        for sentence in judgement(folded.state_of(stream), recorded, body, suppliers.terms_at(recorded)):
            replayed.note(recorded, sentence)
        replayed.payloads += body is not None
        body = None
    replayed.events += folded.events
    replayed.streams += folded.streams
    replayed.partial_streams += len(folded.partial)


def _judged_places(events: Sequence[Recorded]) -> list[PayloadId]:
    """The payloads of imports that have ended, in the order of their events."""
    ended = {one.stream for one in events if isinstance(one.event, ImportProcessed | ImportErrored)}
    digests = ((one.stream, getattr(one.event, "payload_sha256", None)) for one in events if one.stream in ended)
    return [(stream, digest) for stream, digest in digests if digest]


class _Suppliers:
    """The settings of suppliers as they were at a position of the log; each supplier's history is read once."""

    def __init__(self, connection: Connection[Any], upto: int) -> None:
        self._connection = connection
        self._upto = upto
        self._known: dict[str, tuple[list[int], list[Supplier | None]]] = {}

    def terms_at(self, recorded: Recorded) -> Callable[[], Terms]:
        return lambda: terms_of(self._supplier_at(supplier_of(recorded.stream) or "", recorded.position))

    def _supplier_at(self, code: str, position: int) -> Supplier | None:
        if code not in self._known:
            self._known[code] = self._read(code)
        positions, states = self._known[code]
        place = bisect_right(positions, position)
        return states[place - 1] if place else None

    def _read(self, code: str) -> tuple[list[int], list[Supplier | None]]:
        stream, folded = supplier.stream_of(code), Replay()
        positions, states = [], []
        with self._connection.cursor(binary=True, row_factory=dict_row) as cursor:
            for row in cursor.execute(_SELECT_STREAM, {"stream": stream, "upto": self._upto}):
                recorded = recorded_of(row)
                list(folded.divergences([recorded]))
                positions.append(recorded.position)
                states.append(folded.state_of(stream))
        return positions, states
