"""Errors of verbs as one sentence that names the wrong argument or setting."""

import click
import msgspec
import psycopg
import structlog
from obstore.exceptions import BaseError
from psycopg_pool import PoolTimeout

from cli.language import _, translated
from cli.output import print_line
from eventstore.errors import IntakeStopped, LedgerError, NotCompared, OperatorError, StoreUnavailable, reason_of
from eventstore.proof.verifier import Invalid
from redaction.text import cleaned


def failure_sentence(error: Exception) -> str | None:
    """Return the sentence for an operator, on at most two lines; None for an unexpected error."""
    match error:
        case click.UsageError():
            where = error.ctx.command_path if error.ctx else "importledger"
            return f"{_line(error.format_message())}\n" + _("See `{where} --help`.", where=where)
        case click.ClickException():
            return _line(error.format_message())
        case IntakeStopped():
            return _("Intake is stopped: the log does not continue the signed one. Run `importledger doctor`.")
        case NotCompared():
            return _(
                "The log must be compared with its checkpoints first: start the relay, or run `importledger seal`."
            )
        case StoreUnavailable() | PoolTimeout():
            return _("The database has stopped answering. Repeating the command is safe.")
        case OperatorError() | LedgerError() | Invalid() | BaseError() | msgspec.MsgspecError():
            return _line(translated(error)) or type(error).__name__
        case psycopg.errors.InsufficientPrivilege():
            return _("The database does not allow this ({reason}): set DATABASE_ADMIN_URL.", reason=_line(str(error)))
        case psycopg.Error():
            return _("The database has refused: {reason}.", reason=reason_of(error))
        case OSError(filename=str() as name, strerror=str() as reason):
            return f"{name}: {reason}."
        case OSError():
            return _line(str(error)) or type(error).__name__
    return None


def print_failure(error: Exception) -> None:
    """Print the sentence of an error. An unexpected error is also logged, with its traceback."""
    sentence = failure_sentence(error)
    if sentence is None:
        sentence = _("This should not have happened ({kind}); the line above says where.", kind=type(error).__name__)
        structlog.get_logger().error("unexpected error", exc_info=error)
    print_line(f"importledger: {cleaned(sentence)}", err=True)


def _line(text: str) -> str:
    return " ".join(text.split())
