"""Asking the worker processes of all machines for a long job, and waiting for it.

The job and its parts are rows in Postgres; the relay rings for them. Whoever asks may be killed: the workers go on with
what was rung for, and who asks for the same again takes the job up where it is.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.rows import tuple_row

from eventstore.log import locks
from eventstore.log.long_jobs import (
    LongJob,
    Standing,
    add_job,
    end_job,
    open_job,
    pieces_of,
    remaining_s,
    results_of,
    standing_of,
    try_again,
    workers_and_relays,
)
from projections.import_status import imports_wait
from projections.spreading.pieces import JobPiece, edition, named_piece, read_piece
from projections.versioning.reading import Slice, slices
from schemas.job_progress import JobProgress
from schemas.sentence import Sentence

EVENTS_A_SLICE = 15_000
"""About how many events the streams of a part have: some seconds of work."""
MAX_SLICES = 1_000
LOOK_EVERY_S = 0.3
STARTING_S = 5.0
"""How long a worker and a relay are waited for that do not run yet."""
QUIET_S = 10.0
"""How long nothing may happen before it is said why."""


class NotSpread(Exception):
    """The job cannot be done by other processes now; the sentence says why, and what to type."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence if isinstance(sentence, Sentence) else Sentence(sentence, sentence)


Tell = Callable[[JobProgress], None]


class WantedJob(msgspec.Struct, frozen=True):
    """What a new job is to be: pieces, each with how many events it holds, of the log up to a position."""

    upto: int
    pieces: Sequence[tuple[JobPiece, int]]


class AskedJob(msgspec.Struct, frozen=True):
    """A job that was asked for, now or before, and the pieces that it consists of."""

    job: LongJob
    pieces: Sequence[JobPiece]
    is_taken_up: bool = False


def stream_slices(connection: Connection[Any], upto: int) -> list[Slice]:
    """The streams of the log in parts that take some seconds each."""
    count = max(1, min(MAX_SLICES, upto // EVENTS_A_SLICE))
    return slices(connection, count, upto=upto, least=min(EVENTS_A_SLICE, 1_000))


@contextmanager
def asking(
    connection: Connection[Any],
    kind: str,
    arguments: Mapping[str, Any],
    wanted: Callable[[], WantedJob],
    *,
    is_usable: Callable[[AskedJob], bool] = lambda asked: True,
) -> Iterator[AskedJob]:
    """The job of this kind and these arguments, while the block runs; for a connection in autocommit.

    One that was asked for before is taken up, when it `is_usable` still; otherwise there is a new one of what is
    `wanted` now. The block is to wait for it, and to end it. Raises NotSpread.
    """
    refuse_alone(connection, or_else=_OR_ALONE)
    text = msgspec.json.encode(arguments, order="sorted").decode()
    lock = f"{kind} {text}"
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute("SELECT pg_try_advisory_lock(%s, hashtext(%s))", (locks.LONG_JOBS, lock)).fetchone()
    if not (row and row[0]):
        raise NotSpread("Another command waits for the same job already.")
    try:
        yield _taken_up(connection, kind, text, is_usable) or _added(connection, kind, text, wanted())
    finally:
        if not connection.closed:
            connection.execute("SELECT pg_advisory_unlock(%s, hashtext(%s))", (locks.LONG_JOBS, lock))


def _taken_up(
    connection: Connection[Any], kind: str, arguments: str, is_usable: Callable[[AskedJob], bool]
) -> AskedJob | None:
    job = open_job(connection, kind, arguments)
    if job is None:
        return None
    if job.edition == edition():
        asked = AskedJob(job, [read_piece(piece) for piece in pieces_of(connection, job.job)], is_taken_up=True)
        if is_usable(asked):
            try_again(connection, job.job)
            return asked
    end_job(connection, job.job, "given up")
    return None


def _added(connection: Connection[Any], kind: str, arguments: str, wanted: WantedJob) -> AskedJob:
    said = [(msgspec.json.encode(piece).decode(), events) for piece, events in wanted.pieces]
    job = add_job(connection, kind, arguments, edition(), wanted.upto, said)
    return AskedJob(job, [piece for piece, _ in wanted.pieces])


def wait_for(connection: Connection[Any], asked: AskedJob, tell: Tell) -> list[str]:
    """Wait until every part is done; their results, in the order of the parts. Raises NotSpread."""
    job = asked.job.job
    watch = _Watch(standing_of(connection, job))
    while True:
        standing = standing_of(connection, job)
        workers, relays = workers_and_relays(connection)
        if standing.given_up is not None:
            raise NotSpread(
                f"Part {standing.given_up.number} of {standing.parts} ({named_piece(standing.given_up.piece)}) was"
                f" tried again and again, and failed: {standing.given_up.error or 'each worker that took it has died'}."
                " What the other parts came to is kept: type the same again when the cause is mended."
            )
        watch.look(standing)
        if standing.refused_by and watch.quiet_s > QUIET_S and not standing.parts_done:
            raise NotSpread(
                f"The workers run edition {standing.refused_by}, and this command is of edition {edition()}: they leave"
                " the job alone. Run both from one release, and type the same again."
            )
        why = why_quiet(connection, workers, relays) if watch.quiet_s > QUIET_S else ""
        tell(progress_of(job, standing, workers, watch.eta_s(standing), why))
        if standing.is_done:
            return results_of(connection, job)
        time.sleep(LOOK_EVERY_S)


def progress_of(job: str, standing: Standing, workers: int, eta_s: float | None, why: str = "") -> JobProgress:
    return JobProgress(
        job=job,
        parts=standing.parts,
        parts_done=standing.parts_done,
        parts_taken=standing.parts_taken,
        events=standing.events,
        events_done=standing.events_done,
        workers=workers,
        eta_s=eta_s,
        why=why,
    )


def end_asked(connection: Connection[Any], asked: AskedJob, outcome: str = "done") -> None:
    """The job is over: its results were taken."""
    end_job(connection, asked.job.job, outcome)


class _Watch:
    """How fast it goes, and since when nothing has happened."""

    def __init__(self, before: Standing) -> None:
        self._began = self._moved_at = time.monotonic()
        self._before, self._last = before, before

    def look(self, standing: Standing) -> None:
        if standing.parts_done != self._last.parts_done or standing.parts_taken:
            self._moved_at = time.monotonic()
        self._last = standing

    @property
    def quiet_s(self) -> float:
        return time.monotonic() - self._moved_at

    def eta_s(self, standing: Standing) -> float | None:
        """By what was done since this command watches."""
        already = self._before.events_done
        return remaining_s(standing.events_done - already, standing.events - already, time.monotonic() - self._began)


def refuse_alone(connection: Connection[Any], *, or_else: Sentence, within_s: float | None = None) -> None:
    """Raises NotSpread where nobody would take a part, nor does after a moment: processes may be starting."""
    deadline = time.monotonic() + (STARTING_S if within_s is None else within_s)
    workers, relays = workers_and_relays(connection)
    while not (workers and relays) and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY_S)
        workers, relays = workers_and_relays(connection)
    if not workers:
        raise NotSpread(Sentence(f"{_NO_WORKER} {or_else}", f"{_NO_WORKER.german} {or_else.german}"))
    if not relays:
        raise NotSpread(_NO_RELAY)


_OR_ALONE = Sentence(
    "Or leave --spread out, and this process does it alone.", "Oder ohne --spread, dann tut es dieser Prozess allein."
)
_NO_WORKER = Sentence(
    "No worker process runs. Start one or more on each machine: `importledger worker`.",
    "Es läuft kein Worker-Prozess. Auf jeder Maschine einen oder mehrere starten: `importledger worker`.",
)
_NO_RELAY = Sentence(
    "No relay runs, which rings for the workers. Start one: `importledger relay`.",
    "Es läuft kein Relay, das den Workern Bescheid gibt. Eines starten: `importledger relay`.",
)
_IMPORTS_WAIT = Sentence("Imports wait, and come first.", "Importe warten und gehen vor.")


def why_quiet(connection: Connection[Any], workers: int, relays: int) -> Sentence:
    """Why nobody does anything, as far as it can be seen."""
    if not workers:
        return _NO_WORKER
    if not relays:
        return _NO_RELAY
    if imports_wait(connection):
        return _IMPORTS_WAIT
    return Sentence(
        "Workers run ({workers}), and none takes a part. Are they of this release, and does Redis answer them?",
        "Worker laufen ({workers}), und keiner nimmt einen Teil. Sind sie von dieser Version, und antwortet Redis?",
        workers=workers,
    )
