"""What can go wrong, as one tree: catch ImportLedgerError for all of it.

Every error has `.errors`, each with `.attr` (dotted path), `.code` (permanent) and `.detail` (a sentence); it is empty
where nothing can be said of single fields. `.code` is that of the answer, `.status` its HTTP status, None without one.
"""

from typing import Any

from importledger_client.answers import FieldError


class ImportLedgerError(Exception):
    """Anything that this package raises on purpose."""

    def __init__(
        self, message: str, *, code: str = "", status: int | None = None, errors: tuple[FieldError, ...] = ()
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.errors = errors


class Misconfigured(ImportLedgerError):
    """No address or no key was given, by argument or environment."""


class Refused(ImportLedgerError):
    """The service understood the request and refuses it: `.errors` says what is to be mended. Repeating is no use."""


class AlreadyImported(Refused):
    """The account is on the platform already, under the number `service_identifier`."""

    service_identifier: str | None = None


class NotAllowed(ImportLedgerError):
    """The key is wrong, or does not allow this (401, 403)."""


class NotFound(ImportLedgerError):
    """There is no such account, run or supplier for this key (404)."""


class Unavailable(ImportLedgerError):
    """The service could not be reached, or was too busy, for longer than the client was told to wait."""


class TimedOut(ImportLedgerError):
    """What was waited for has not happened in time; it may still happen."""


def error_of(status: int, body: Any) -> ImportLedgerError:
    """The error that an answer with this status and JSON body stands for."""
    said = body if isinstance(body, dict) else {}
    inner = said.get("non_field_errors")
    whole = inner if isinstance(inner, dict) else said
    code, detail = str(whole.get("code") or ""), str(whole.get("detail") or f"The service answered {status}.")
    errors = _field_errors(said) or ((FieldError("", code, detail),) if code else ())
    message = "; ".join(f"{e.attr}: {e.detail}" if e.attr else e.detail for e in errors[:3]) or detail
    if len(errors) > 3:
        message += f"; and {len(errors) - 3} more"
    kind = {401: NotAllowed, 403: NotAllowed, 404: NotFound, 408: Unavailable, 429: Unavailable}.get(status)
    if kind is None:
        kind = Unavailable if status >= 500 else Refused
    if kind is Refused and "account_id" in said:
        already = AlreadyImported(message, code=code, status=status, errors=errors)
        already.service_identifier = said["account_id"]
        return already
    return kind(message, code=code, status=status, errors=errors)


def _field_errors(said: dict[str, Any]) -> tuple[FieldError, ...]:
    listed = said.get("errors")
    if not isinstance(listed, list):
        return ()
    return tuple(
        FieldError(str(e.get("attr") or ""), str(e.get("code") or ""), str(e.get("detail") or ""))
        for e in listed
        if isinstance(e, dict)
    )
