"""How a verb ends that cannot do what was asked: one sentence that names what was typed, and exit code 1."""

import click
import msgspec
import psycopg
import structlog
from obstore.exceptions import BaseError
from psycopg_pool import PoolTimeout

from cli.output import print_line
from eventstore.errors import IntakeStopped, LedgerError, NotCompared, OperatorError, StoreUnavailable, reason_of
from eventstore.proof.verifier import Invalid
from redaction.shown import cleaned


def failure_sentence(error: Exception) -> str | None:
    """What an operator reads, on two lines at most; None for what nobody has expected."""
    match error:
        case click.UsageError():
            where = error.ctx.command_path if error.ctx else "importledger"
            return f"{_line(error.format_message())}\nSee `{where} --help`."
        case click.ClickException():
            return _line(error.format_message())
        case IntakeStopped():
            return "Intake is stopped: the log does not continue what was signed. `importledger doctor` says more."
        case NotCompared():
            return "The log must be compared with its checkpoints first: start the relay, or run `importledger seal`."
        case StoreUnavailable() | PoolTimeout():
            return "The database has stopped answering. What was asked may be asked again."
        case OperatorError() | LedgerError() | Invalid() | BaseError() | msgspec.MsgspecError():
            return _line(str(error)) or type(error).__name__
        case psycopg.errors.InsufficientPrivilege():
            return f"The database does not allow this ({_line(str(error))}): set DATABASE_ADMIN_URL."
        case psycopg.Error():
            return f"The database has refused: {reason_of(error)}."
        case OSError(filename=str() as name, strerror=str() as reason):
            return f"{name}: {reason}."
        case OSError():
            return _line(str(error)) or type(error).__name__
    return None


def tell_failure(error: Exception) -> None:
    """Say why. What nobody has expected is logged as well, with where it came from."""
    told = failure_sentence(error)
    if told is None:
        told = f"This should not have happened ({type(error).__name__}); the line above says where."
        structlog.get_logger().error("unexpected error", exc_info=error)
    print_line(f"importledger: {cleaned(told)}", err=True)


def _line(text: str) -> str:
    return " ".join(text.split())
