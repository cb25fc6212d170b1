"""Exceptions of this package. All of them are ImportLedgerError.

Every exception has `.errors`, each with `.attr` (dotted path, "" without a field), `.code` (permanent) and `.detail` (a
sentence). `.errors` is empty without an answer, or for an answer without a code. `.code` is the code of the answer,
`.status` its HTTP status, or None without an answer.
"""

from typing import Any

from importledger_client.answers import FieldError
from importledger_client.language import _


class ImportLedgerError(Exception):
    """Base of all errors that this package raises."""

    def __init__(
        self, message: str, *, code: str = "", status: int | None = None, errors: tuple[FieldError, ...] = ()
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.errors = errors


class Misconfigured(ImportLedgerError):
    """The address or the key is missing or must not be used."""


class Refused(ImportLedgerError):
    """The service refuses the request. `.errors` has the errors to correct. Do not repeat the request unchanged."""


class AlreadyImported(Refused):
    """The account is on the platform already, under the number `service_identifier`."""

    service_identifier: str | None = None


class NotAllowed(ImportLedgerError):
    """The key is wrong, or does not allow the request (401, 403)."""


class NotFound(ImportLedgerError):
    """No such account, run or supplier exists for this key (404)."""


class Unavailable(ImportLedgerError):
    """The service could not be reached or was too busy, for longer than `retry_timeout_s` of the client."""


class TimedOut(ImportLedgerError):
    """The import has not ended in time, but may still end."""


_KINDS = {401: NotAllowed, 403: NotAllowed, 404: NotFound, 408: Unavailable, 429: Unavailable}


def error_of(status: int, body: Any) -> ImportLedgerError:
    """Return the exception for an answer with this status and JSON body."""
    answer = body if isinstance(body, dict) else {}
    inner = answer.get("non_field_errors")
    fields = inner if isinstance(inner, dict) else answer
    code = str(fields.get("code") or "")
    detail = str(fields.get("detail") or _("The service answered {status}.", status=status))
    errors = _field_errors(answer) or ((FieldError("", code, detail),) if code else ())
    message = "; ".join(f"{e.attr}: {e.detail}" if e.attr else e.detail for e in errors[:3]) or detail
    if len(errors) > 3:
        message += _("; and {number} more", number=len(errors) - 3)
    kind = _KINDS.get(status) or (Unavailable if status >= 500 else Refused)
    if kind is Refused and "account_id" in answer:
        already = AlreadyImported(message, code=code, status=status, errors=errors)
        already.service_identifier = answer["account_id"]
        return already
    return kind(message, code=code, status=status, errors=errors)


def _field_errors(answer: dict[str, Any]) -> tuple[FieldError, ...]:
    listed = answer.get("errors")
    if not isinstance(listed, list):
        return ()
    return tuple(
        FieldError(str(e.get("attr") or ""), str(e.get("code") or ""), str(e.get("detail") or ""))
        for e in listed
        if isinstance(e, dict)
    )
