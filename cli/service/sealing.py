"""Sealing on this machine: the key, checkpoints inside and outside the database, and verification of the log."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import psycopg
from psycopg import Connection

from cli.service.settings import SettingError, Settings
from embedded.folder import DataFolder
from eventstore.log.rows import rows_of
from eventstore.operations.guards import guards_off
from eventstore.proof.checkpoints import CheckpointCopies, LogKey
from eventstore.proof.payload_verification import VerifiedPayloads, verifying_payloads
from eventstore.proof.verification import (
    CheckpointNote,
    Verified,
    VerifiedAnswers,
    altered_rows,
    verify_answers,
    verify_events,
)
from projections.views.access_key import wrong_keys
from redaction.text import counted

CHECKPOINTS = "checkpoints"
SEALING_KEY = "sealing_key"
MAX_PROBLEMS = 100
"""Problems that the console shows of a verification."""


def sealing_key(settings: Settings) -> LogKey:
    """Return the sealing key of the settings, or else of the data folder, where the first use creates the key."""
    return LogKey.of(settings.sealing_key or DataFolder(settings.data_dir).secret(SEALING_KEY))


def known_key(settings: Settings) -> LogKey | None:
    """Return the sealing key of this machine, or None."""
    secret = settings.sealing_key or DataFolder(settings.data_dir).known_secret(SEALING_KEY)
    return LogKey.of(secret) if secret else None


def known_verifier(settings: Settings) -> str:
    """Return the public key of this installation's sealing key. Raises SettingError without a sealing key."""
    key = known_key(settings)
    if key is None:
        raise SettingError("This machine does not have the log's key. Give its verifier key with --key.")
    return key.verifier


def checkpoint_copies(settings: Settings) -> CheckpointCopies:
    """Return the place of checkpoints outside the database: the URL of the settings, else in the data folder."""
    return CheckpointCopies(settings.checkpoints_url or (settings.data_dir.absolute() / CHECKPOINTS).as_uri())


def database_checkpoints(connection: Connection[Any]) -> Iterator[CheckpointNote]:
    """Yield the checkpoints in the database, smallest first."""
    for size, note in rows_of(connection, "SELECT size, note FROM log_checkpoints ORDER BY size, branch"):
        yield CheckpointNote(f"in the database, of {counted(size, 'event')}", note)


class LogCheck(msgspec.Struct):
    """Result of a verification. `payloads` and `answers` are None unless the whole log was verified."""

    events: Verified
    payloads: VerifiedPayloads | None
    answers: VerifiedAnswers | None
    problems: list[str]
    """Sentences on problems. Sentences that begin with WARNED are about data that checkpoints do not cover."""
    seconds: float


def check_log(
    database_url: str,
    trusted: Sequence[str],
    further: Sequence[CheckpointNote],
    progress: contextlib.AbstractContextManager[Callable[..., None]],
    *,
    is_full: bool,
    jobs: int = 1,
) -> LogCheck:
    """Verify the log, as of one moment, against the checkpoints in the database and the checkpoints `further`.

    `is_full` also computes the hashes of old events again, and decrypts all payloads in `jobs` processes.
    """
    began = time.monotonic()
    payloads = answers = None
    with psycopg.connect(database_url, autocommit=True) as connection, contextlib.ExitStack() as stack:
        stack.enter_context(connection.transaction())
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL TIME ZONE 'UTC'")
        opening = stack.enter_context(verifying_payloads(connection, database_url, jobs=jobs)) if is_full else None
        report = stack.enter_context(progress)
        checkpoints = [*database_checkpoints(connection), *further]
        events = verify_events(connection, trusted, checkpoints, is_full=is_full, progress=report)
        problems = list(events.problems)
        if opening is not None:
            payloads, answers = opening(), verify_answers(connection)
            problems += [*payloads.problems, *answers.problems, *altered_rows(connection, trusted)]
            problems += guards_off(connection)
            problems += [f"WARNED  {sentence}" for sentence in wrong_keys(connection)]
    return LogCheck(events, payloads, answers, problems, time.monotonic() - began)


def log_verifier(
    settings: Settings, database_url: str
) -> Callable[[Mapping[str, str], Callable[[int], None]], dict[str, Any]]:
    """Return the function that verifies the log for users of the console.

    The request may have `all` for the whole log, and `against`, the text of a checkpoint that the user has kept.
    """

    def verified(request: Mapping[str, str], progress: Callable[[int], None]) -> dict[str, Any]:
        against = (
            [CheckpointNote("the checkpoint that was given", request["against"])] if request.get("against") else []
        )
        trusted, report = (known_verifier(settings),), contextlib.nullcontext(progress)
        check = check_log(database_url, trusted, against, report, is_full=bool(request.get("all")))
        return {
            "events": check.events.head,
            "hashed": check.events.hashed,
            "anchored": check.events.anchored,
            "checkpoints": check.events.checkpoints,
            "problems": check.problems[:MAX_PROBLEMS],
            "seconds": round(check.seconds, 1),
        }

    return verified
