"""Verifying the log for whoever asks in the console: the same checks as the verb makes, reported as values."""

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import psycopg

from cli.service.sealing import kept_inside, known_key
from cli.service.settings import Settings
from eventstore.operations.guards import guards_off
from eventstore.proof.answer_verification import verify_answers
from eventstore.proof.payload_verification import verifying_payloads
from eventstore.proof.verification import Kept, verify_events, wrong_rows
from projections.views.access_key import wrong_keys

MAX_PROBLEMS = 100


def log_verifier(
    settings: Settings, database_url: str
) -> Callable[[Mapping[str, str], Callable[[int], None]], dict[str, Any]]:
    """What verifies the log at this URL; `all` for everything, `against` for a checkpoint that somebody has kept."""

    def verified(asked: Mapping[str, str], progress: Callable[[int], None]) -> dict[str, Any]:
        trusted, whole, began = (known_key(settings),), bool(asked.get("all")), time.monotonic()
        with (
            psycopg.connect(database_url, autocommit=True) as connection,
            connection.transaction(),
            contextlib.ExitStack() as stack,
        ):
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute("SET LOCAL statement_timeout = 0")
            opening = stack.enter_context(verifying_payloads(connection, database_url, jobs=1)) if whole else None
            against = [Kept("the checkpoint that was given", asked["against"])] if asked.get("against") else []
            kept = [*kept_inside(connection), *against]
            events = verify_events(connection, trusted, kept, whole=whole, progress=progress)
            problems = list(events.problems)
            if opening is not None:
                problems += opening().problems + verify_answers(connection).problems
                problems += [*wrong_rows(connection, trusted), *guards_off(connection)]
                problems += [f"WARNED  {sentence}" for sentence in wrong_keys(connection)]
        return {
            "events": events.head,
            "hashed": events.hashed,
            "anchored": events.anchored,
            "checkpoints": events.checkpoints,
            "problems": problems[:MAX_PROBLEMS],
            "seconds": round(time.monotonic() - began, 1),
        }

    return verified
