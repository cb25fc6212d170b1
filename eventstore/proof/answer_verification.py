"""Verification of remembered answers: each is compared with the digest in an event.

Answers about erased persons must be deleted.
"""

from typing import Any

import msgspec
from psycopg import Connection
from psycopg.rows import tuple_row

from eventstore.events import ERASURES, SUBJECT

MAX_NAMED = 5

_COMPARE = f"""
WITH erasures AS (
    SELECT stream, position
    FROM events
    WHERE topic = ANY(%(erasures)s)
), spoken AS (
    SELECT command_id, min(events.position) AS position, coalesce(bool_or(erasures.position > events.position), false)
           AS is_erased, max(split_part(split_part(encode(state, 'escape'), '"answer_sha256":"', 2), '"', 1)) AS digest
    FROM events
    LEFT JOIN erasures ON erasures.stream = {SUBJECT.format("events.stream")}
    WHERE command_id IS NOT NULL
    GROUP BY command_id
), kept AS (
    SELECT command_id, encode(sha256(
               convert_to(concat_ws(E'\\n', command_id, encode(request_sha256, 'hex'), status, ''), 'UTF8') || body
           ), 'hex') AS digest
    FROM remembered_answers
), compared AS (
    SELECT position, command_id,
           CASE WHEN spoken.digest IS NULL THEN 'unspoken'
                WHEN kept.digest IS NULL THEN CASE WHEN is_erased THEN '' ELSE 'missing' END
                WHEN is_erased THEN 'unerased'
                WHEN spoken.digest = kept.digest THEN 'matching'
                ELSE 'altered' END AS state
    FROM spoken
    FULL JOIN kept USING (command_id)
), numbered AS (
    SELECT *, count(*) OVER (PARTITION BY state) AS times,
           row_number() OVER (PARTITION BY state ORDER BY position, command_id) AS number
    FROM compared
)
SELECT numbered.state, times, numbered.position, stream
FROM numbered
LEFT JOIN events USING (position)
WHERE number <= CASE WHEN numbered.state IN ('matching', '') THEN 1 ELSE %(most)s END
ORDER BY numbered.position, number
"""  # noqa: S608 - constants

_SENTENCES = {
    "altered": "WARNED  position {position} ({stream}): the remembered answer is not the one that was given",
    "missing": "WARNED  position {position} ({stream}): the remembered answer is missing and was not erased",
    "unerased": "WARNED  position {position} ({stream}): the person was erased but the answer is still there",
    "unspoken": "WARNED  a remembered answer has no event",
}


class VerifiedAnswers(msgspec.Struct, kw_only=True):
    """Number of remembered answers that match the log's digests, and problems."""

    matching: int = 0
    problems: list[str] = []


def verify_answers(connection: Connection[Any]) -> VerifiedAnswers:
    """Compare all remembered answers with the log, in the connection's transaction."""
    verified = VerifiedAnswers()
    counts: dict[str, int] = {}
    with connection.cursor(row_factory=tuple_row) as cursor:
        for state, times, position, stream in cursor.execute(_COMPARE, {"most": MAX_NAMED, "erasures": [*ERASURES]}):
            counts[state] = times
            if state in _SENTENCES:
                verified.problems.append(_SENTENCES[state].format(position=position, stream=stream))
    for state in _SENTENCES:
        if counts.get(state, 0) > MAX_NAMED:
            verified.problems.append(f"WARNED  {counts[state]} answers are {state} in all")
    verified.matching = counts.get("matching", 0)
    return verified
