"""Problems of an import, and refused requests about its account."""

from starlette.requests import Request
from starlette.responses import Response

from api.access.auth import READERS
from api.admission import Call
from api.description.problem_sentences import error_sentence, problem_of
from api.http.database import in_thread, read
from api.http.errors import not_found
from api.http.paths import identifier
from api.http.responses import json_response, localised_response
from api.operation import ACCOUNT_PATH, ACCOUNTS, operation
from api.services import Endpoint
from eventstore.aggregates.import_process import (
    DryRunErrored,
    DryRunSucceeded,
    ImportErrored,
    ImportProcessed,
    ImportStaged,
    stream_of,
)
from eventstore.events import Recorded
from projections.auxiliary.refused_attempts import Attempt
from projections.auxiliary.refused_attempts import refused_attempts as select_attempts
from projections.queries.history import events_since_staged
from projections.queries.missing_documents import CODE as MISSING
from projections.queries.missing_documents import document_paths, staged_bodies
from schemas.base import Problem, code_and_path
from schemas.reading.problems import UNKNOWN_FIELD
from schemas.sentence import Sentence, german_of
from schemas.status import AttemptProblem, ImportProblems, RefusedAttempt

_LEFT_OUT = Sentence(
    "This field is not documented; it was left out.", "Dieses Feld ist nicht dokumentiert; es wurde weggelassen."
)


class ProblemQueries(Endpoint):
    """The handlers of …/problems/ and …/attempts/."""

    @operation("GET", f"{ACCOUNT_PATH}problems/", ACCOUNTS, roles=READERS, answers={200: ImportProblems})
    async def read_import_problems(self, request: Request, call: Call) -> Response:
        """List the errors and warnings of an import."""
        supplier, external = identifier(request, "supplier"), identifier(request, "external")
        events = await read(self._pool, events_since_staged, supplier, external)
        if not events:
            raise not_found()
        found = import_problems(events)
        if missing_paths(found):
            stream = stream_of(supplier, external)
            bodies = await in_thread(lambda: dict(staged_bodies(self._ledger, [stream])))
            found = naming_paths(found, document_paths(bodies.get(stream, b"{}")))
        return localised_response(request, found)

    @operation("GET", f"{ACCOUNT_PATH}attempts/", ACCOUNTS, roles=READERS, answers={200: list[RefusedAttempt]})
    async def read_refused_attempts(self, request: Request, call: Call) -> Response:
        """List refused requests about an account in the last 90 days: time, codes and paths.

        A refused request is listed after a second.
        """
        supplier, external = await self._known_supplier(request), identifier(request, "external")
        attempts = await read(self._pool, select_attempts, external, [supplier])
        return json_response([_shown(attempt) for attempt in attempts])


def import_problems(events: list[Recorded]) -> ImportProblems:
    """Return the errors and warnings of one import since it was staged last, from its events. Pure.

    The log stores codes and paths; the sentences are from the rules and the catalogue.
    """
    errors: tuple[Problem, ...] = ()
    warnings: dict[Problem, None] = {}
    for recorded in events:
        match recorded.event:
            case ImportStaged(warnings=names, dropped_fields=dropped):
                warnings = dict.fromkeys((*map(problem_of, names), *map(_dropped_field, dropped)))
                errors = ()
            case ImportProcessed(warnings=names) | DryRunSucceeded(warnings=names):
                warnings |= dict.fromkeys(map(problem_of, names))
                errors = ()
            case (
                ImportErrored(code=code, detail=detail, problems=names)
                | DryRunErrored(code=code, detail=detail, problems=names)
            ):
                errors = tuple(map(problem_of, names)) or (
                    Problem("non_field_errors", code, error_sentence(code, detail)),
                )
            case _:
                errors = ()
    return ImportProblems(errors=errors, warnings=tuple(warnings))


def _dropped_field(path: str) -> Problem:
    return Problem(path, UNKNOWN_FIELD, _LEFT_OUT)


def missing_paths(found: ImportProblems) -> set[str]:
    """Return the paths of the fields whose documents are missing."""
    return {problem.attr for problem in (*found.errors, *found.warnings) if problem.code == MISSING}


def naming_paths(found: ImportProblems, paths: tuple[str, ...]) -> ImportProblems:
    """Return the problems with the paths of missing documents in their sentences.

    `paths` has a path for each statement.
    """

    def named(problem: Problem) -> Problem:
        step = problem.attr.split(".")[1:2]
        if problem.code != MISSING or not step or not step[0].isdigit() or int(step[0]) >= len(paths):
            return problem
        path = paths[int(step[0])]
        english, german = problem.detail[:-1], german_of(problem.detail)[:-1]
        return Problem(problem.attr, problem.code, Sentence(f"{english}: {path}", f"{german}: {path}"))

    return ImportProblems(errors=tuple(map(named, found.errors)), warnings=tuple(map(named, found.warnings)))


def _shown(attempt: Attempt) -> RefusedAttempt:
    problems = map(code_and_path, attempt.problems)
    return RefusedAttempt(
        attempted_at=attempt.attempted_at,
        operation=attempt.operation,
        code=attempt.code,
        problems=tuple(AttemptProblem(attr=attr, code=code) for code, attr in problems),
    )
