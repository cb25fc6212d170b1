"""Answers that are not a success: the form of each refusal on the wire.

A body is `{detail, code}`. With problems it is `{detail, code, errors: [{detail, code, attr}]}`. The v2 account
endpoints add the nested tree of fields.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from api.http.request_log import REQUEST_ID, new_request_id, route_of
from api.http.responses import localised_response
from api.http.status_codes import CODES as _CODES
from api.http.status_codes import INTAKE_STOPPED, STOPPED, ApiError, sentence_of
from eventstore.errors import (
    AlreadyImported,
    IntakeStopped,
    LedgerBusy,
    Refused,
    StoreUnavailable,
    StreamUnreadable,
    VersionConflict,
)
from eventstore.log.store_errors import is_unavailable
from projections.auxiliary.books import BooksFull
from schemas.base import Problem
from schemas.reading.problems import bounded, is_truncated
from schemas.reading.shape import NotJson
from schemas.reading.work import TooMuchWork
from schemas.sentence import Sentence
from telemetry.measures import measures

logger = structlog.get_logger()

_DETAILS = {
    404: Sentence("The requested resource does not exist.", "Die angefragte Ressource gibt es nicht."),
    405: Sentence("This method is not allowed here.", "Diese Methode ist hier nicht erlaubt."),
}
_UNAVAILABLE = Sentence(
    "The service cannot store or read at the moment. Repeating the request is safe.",
    "Der Dienst kann im Augenblick nicht speichern oder lesen. Die Anfrage kann gefahrlos wiederholt werden.",
)
_BOOKS_FULL = Sentence(
    "There is no space for more files at the moment. What was uploaded is stored; continue the upload later.",
    "Im Augenblick ist kein Platz für weitere Dateien. Hochgeladenes ist gespeichert; laden Sie später weiter hoch.",
)
_RETRY = {"Retry-After": "1"}
RETRY_STOPPED = {"Retry-After": "30"}
"""Header for stopped intake [seconds]: the stop lasts until an operator decides."""


class NotValid(Exception):
    """Refusal of a request's content, with as many problems as an answer can list.

    `supplier` is "" if it is not known. `with_tree` adds the nested tree of fields to the answer.
    """

    def __init__(
        self, code: str, detail: Sentence, problems: Sequence[Problem], *, supplier: str = "", with_tree: bool = False
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.problems = bounded(problems)
        self.supplier = supplier
        self.with_tree = with_tree


def data_not_valid(*problems: Problem, supplier: str = "") -> NotValid:
    """Return the refusal of a body at an endpoint that does not import accounts."""
    detail = Sentence("The data could not be validated.", "Die Daten konnten nicht validiert werden.")
    return NotValid("validation_error", detail, problems, supplier=supplier)


def query_not_valid(*problems: Problem) -> NotValid:
    """Return the refusal of query parameters."""
    detail = Sentence("The query is not valid.", "Die Abfrage ist ungültig.")
    return NotValid("validation_error", detail, problems)


def unknown_parameter(declared: tuple[str, ...]) -> Sentence:
    """Return the sentence for a parameter that an operation does not declare."""
    if not declared:
        return Sentence("The query must not have any parameters.", "Die Abfrage darf keine Parameter haben.")
    listed = ", ".join(declared)
    return Sentence(f"A parameter must be one of {listed}.", f"Ein Parameter muss einer von {listed} sein.")


def not_found(detail: Sentence = _DETAILS[404]) -> ApiError:
    return ApiError(404, detail)


def tree_of(problems: Sequence[Problem]) -> dict[str, Any]:
    """Return the problems as a nested object by field name and index, with an array of sentences at each leaf."""
    root: dict[str, Any] = {}
    for problem in problems:
        node = root
        *above, last = problem.attr.split(".")
        for step in above:
            below = node.setdefault(step, {})
            if isinstance(below, list):
                below = node[step] = {"non_field_errors": below}
            node = below
        leaf = node.setdefault(last, [])
        while isinstance(leaf, dict):
            leaf = leaf.setdefault("non_field_errors", [])
        leaf.append(problem.detail)
    return root


def answered_error(request: Request, error: Exception) -> Response:
    """Return the answer to an expected error."""
    match error:
        case ApiError():
            return _answered(request, error.body, error.status, error.headers)
        case NotValid():
            body: dict[str, Any] = tree_of(error.problems) if error.with_tree else {}
            body |= {"detail": error.detail, "code": error.code, "errors": error.problems}
            if is_truncated(error.problems):
                body["errors_truncated"] = True
            return _answered(request, body, 400)
        case NotJson():
            return _answered(request, {"detail": error.detail, "code": "parse_error"}, 400)
        case TooMuchWork():
            return _answered(request, {"detail": error.detail, "code": _CODES[413]}, 413)
        case AlreadyImported():
            whole = {"detail": sentence_of(error), "code": error.code}
            measures().refused(error.code)
            return localised_response(request, {"non_field_errors": whole, "account_id": error.account_number}, 400)
        case IntakeStopped():
            return _answered(request, {"detail": INTAKE_STOPPED, "code": STOPPED}, 503, RETRY_STOPPED)
        case BooksFull():
            return _answered(request, {"detail": _BOOKS_FULL, "code": _CODES[503]}, 503, RETRY_STOPPED)
        case Refused():
            return _answered(request, {"detail": sentence_of(error), "code": error.code}, 400)
        case HTTPException():
            detail = _DETAILS.get(error.status_code, error.detail)
            refusal = {"detail": detail, "code": _CODES.get(error.status_code, "error")}
            return _answered(request, refusal, error.status_code, error.headers)
    logger.warning(
        "store unavailable", method=request.method, route=route_of(request.scope), reason=type(error).__name__
    )
    return _answered(request, {"detail": _UNAVAILABLE, "code": _CODES[503]}, 503, _RETRY)


def unexpected_error(request: Request, error: Exception) -> Response:
    """Return 500 for an unexpected error, with the request id under which the log has the details."""
    request_id = request.scope.get(REQUEST_ID) or new_request_id()
    logger.error("unexpected error", request_id=request_id, route=route_of(request.scope), exc_info=error)
    kind = type(error).__name__
    detail = Sentence(
        f"An unexpected error occurred: {kind}. Send the request id to the platform team.",
        f"Ein unerwarteter Fehler ist aufgetreten: {kind}. Nennen Sie dem Plattform-Team die request_id.",
    )
    code = error.code if isinstance(error, StreamUnreadable) else "error"
    return _answered(request, {"detail": detail, "code": code, "request_id": request_id}, 500)


def _answered(
    request: Request, body: dict[str, Any], status: int, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the refusal with this body, and count it by its code."""
    measures().refused(body["code"])
    return localised_response(request, body, status, headers)


ErrorHandler = Callable[[Request, Exception], Response]

_EXPECTED = (
    *(ApiError, NotValid, NotJson, TooMuchWork, IntakeStopped, Refused, HTTPException),
    *(StoreUnavailable, VersionConflict, LedgerBusy, psycopg.Error),
)
HANDLERS: dict[Any, ErrorHandler] = {
    **dict.fromkeys(_EXPECTED, answered_error),
    StreamUnreadable: unexpected_error,
    Exception: unexpected_error,
}


def answer_of(error: Exception) -> ErrorHandler | None:
    """Return the handler of an expected error; None for an unexpected one.

    An error of the driver is expected if the server is away or cannot write.
    """
    if isinstance(error, psycopg.Error) and not is_unavailable(error):
        return None
    return next((HANDLERS[kind] for kind in type(error).__mro__ if kind in HANDLERS and kind is not Exception), None)
