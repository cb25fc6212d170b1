"""A long job that requests ask for. None of them waits: each is told how far the job is, and asks again to look again.

So clients, api processes and workers may be killed at any time. What is done is good for as long as somebody asks; when
nobody has for a while, a job goes on only where nothing has changed since.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from psycopg import Connection

from eventstore.log.long_jobs import (
    LongJob,
    Standing,
    end_job,
    open_job,
    remaining_s,
    results_of,
    standing_of,
    workers_and_relays,
)
from eventstore.log.requested_jobs import (
    UNASKED,
    Pace,
    TooManyJobs,
    WantedParts,
    note_request,
    pace_of,
    refuse_more,
    request_job,
)
from projections.spreading.asking import QUIET_S, NotSpread, WantedJob, progress_of, refuse_alone, why_quiet
from projections.spreading.pieces import edition, named_piece
from schemas.job_progress import JobProgress
from schemas.sentence import Sentence

PAUSE_S = 30.0
"""Who asks again within this time goes on, whatever has changed meanwhile."""
FRESH_S = 120.0
"""How long results are good that nobody has taken."""
MAX_OPEN = 3
"""Jobs of one kind that a supplier has at the same time."""


class Done(msgspec.Struct, frozen=True):
    """A job whose parts are all done, and their results in the order of the parts. Whoever has used them ends it."""

    job: str
    results: list[str]


def look(
    connection: Connection[Any],
    kind: str,
    arguments: Mapping[str, str],
    reached: int,
    wanted: Callable[[], WantedJob],
) -> JobProgress | Done:
    """How far the job of this kind and these arguments is, or what it came to; for a connection in autocommit.

    `arguments` name the supplier. `reached` is the position that what is asked about has come to: a job that was left
    alone and speaks of an earlier one is given up for one of what is `wanted` now. Raises NotSpread.
    """
    text = msgspec.json.encode(arguments, order="sorted").decode()
    job = open_job(connection, kind, text)
    if job is not None and not _is_usable(connection, job, reached):
        end_job(connection, job.job, "given up")
        job = None
    if job is None:
        refuse_alone(connection, or_else=_OR_ALONE, within_s=0.0)
        job = _requested(connection, kind, text, wanted, arguments["supplier"])
    else:
        note_request(connection, job.job)
    return _looked(connection, job)


def _is_usable(connection: Connection[Any], job: LongJob, reached: int) -> bool:
    pace = pace_of(connection, job.job)
    if pace is None or pace.unasked_s > UNASKED.total_seconds():
        return False
    if job.edition != edition():
        if pace.unasked_s < PAUSE_S:  # else each would end what the other has begun
            raise NotSpread(_OTHER_EDITION)
        return False
    if pace.quiet_s > FRESH_S and standing_of(connection, job.job).is_done:
        return False
    return pace.unasked_s < PAUSE_S or job.upto == reached


def _requested(
    connection: Connection[Any], kind: str, arguments: str, wanted: Callable[[], WantedJob], supplier: str
) -> LongJob:
    """A new job. What it is to be is found out, which may take seconds, only where there may be one."""
    try:
        refuse_more(connection, kind, supplier=supplier, most=MAX_OPEN)
        job = wanted()
        pieces = [(msgspec.json.encode(piece).decode(), events) for piece, events in job.pieces]
        parts = WantedParts(edition(), job.upto, pieces)
        return request_job(connection, kind, arguments, parts, supplier=supplier, most=MAX_OPEN)
    except TooManyJobs:
        raise NotSpread(_TOO_MANY) from None


def _looked(connection: Connection[Any], job: LongJob) -> JobProgress | Done:
    standing = standing_of(connection, job.job)
    pace = pace_of(connection, job.job) or Pace(0.0, 0.0, 0.0)
    if standing.is_done and standing.parts:
        results = results_of(connection, job.job)
        if len(results) == standing.parts:  # else somebody has just ended it
            return Done(job.job, results)
    if (failure := _failure(standing, pace)) is not None:
        end_job(connection, job.job, "given up")
        raise NotSpread(failure)
    workers, relays = workers_and_relays(connection)
    is_quiet = pace.quiet_s > QUIET_S and not standing.parts_taken
    why = why_quiet(connection, workers, relays) if is_quiet else ""
    return progress_of(
        job.job, standing, workers, remaining_s(standing.events_done, standing.events, pace.seconds), why
    )


def _failure(standing: Standing, pace: Pace) -> Sentence | None:
    """Why the job will never be done, where that is so."""
    if standing.given_up is not None:
        return Sentence(
            "Part {number} of {parts} ({piece}) was tried again and again, and failed; the workers' log says why."
            " Ask again when the cause is mended.",
            "Teil {number} von {parts} ({piece}) ist immer wieder fehlgeschlagen; warum, sagt das Protokoll der Worker."
            " Bitte erneut anfragen, wenn die Ursache behoben ist.",
            number=standing.given_up.number,
            parts=standing.parts,
            piece=named_piece(standing.given_up.piece),
        )
    if standing.refused_by and not standing.parts_done and pace.quiet_s > QUIET_S:
        return Sentence(
            "The workers run edition {theirs}, and this process is of edition {mine}: they leave the job alone."
            " Run both from one release, and ask again.",
            "Die Worker sind von der Ausgabe {theirs}, dieser Prozess ist von {mine}: Sie nehmen den Auftrag nicht an."
            " Bitte beide von derselben Version betreiben und erneut anfragen.",
            theirs=standing.refused_by,
            mine=edition(),
        )
    return None


_OR_ALONE = Sentence(
    "Or ask without spread, and the api does it alone.", "Oder ohne spread anfragen, dann tut es die API allein."
)
_OTHER_EDITION = Sentence(
    "Processes of another release answer too, and have begun it. Ask again: after the upgrade, all answer alike.",
    "Auch Prozesse einer anderen Version antworten und haben schon angefangen. Bitte erneut anfragen; nach dem Upgrade"
    " antworten alle gleich.",
)
_TOO_MANY = Sentence(
    f"Workers are adding up {MAX_OPEN} runs of this supplier already. Ask again when one of them is done.",
    f"Für diesen Lieferanten werden schon {MAX_OPEN} Läufe aufgerechnet. Bitte erneut anfragen, wenn einer fertig ist.",
)
