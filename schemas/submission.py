"""Reader of bodies of validate and create: an account, bare or wrapped."""

import hashlib
import re
from collections.abc import Callable
from contextlib import suppress

import msgspec
from msgspec import UNSET

from schemas.account import Account, TaskParams, WrappedAccount
from schemas.base import Problem
from schemas.reading.as_sent import SentShape, canonical_json
from schemas.reading.decimals import are_decimals_valid, with_unchecked_decimals
from schemas.reading.problems import is_stated
from schemas.reading.shape import Shape, exact_number
from schemas.reading.work import REQUEST_BOUNDS, STORED_BOUNDS, Bounds
from system.steps import Steps, finish_steps

_WRAPPED = re.compile(rb'\s*\{\s*"(payload|task_params)"\s*:')

ACCOUNT = Shape(Account)
WRAPPED_ACCOUNT = Shape(WrappedAccount)
SENT_ACCOUNT = SentShape(Account)
SENT_WRAPPED_ACCOUNT = SentShape(WrappedAccount)


class Submission(msgspec.Struct, frozen=True):
    """An account and the parameters of its processing.

    The account holds a stand-in for each value that `shape_errors` names. Paths never contain `payload.`. `digest` is
    the digest of the content, b"" if it was not computed while reading.
    """

    account: Account
    task: TaskParams
    shape_errors: tuple[Problem, ...] = ()
    digest: bytes = b""

    def canonical_json(self) -> bytes:
        """Return the same bytes for the same content in any spelling."""
        return canonical_json(self.account)

    def content_sha256(self) -> bytes:
        """Return the SHA-256 of the canonical JSON."""
        return self.digest or hashlib.sha256(self.canonical_json()).digest()

    def states(self, field: str) -> bool:
        """Return True if the body has a valid value for this field."""
        return not self.shape_errors or is_stated(field, self.shape_errors)


def is_wrapped(body: bytes) -> bool:
    """Return True if a body has the form `{"payload": account, "task_params": …}`, valid or not."""
    return _WRAPPED.match(body) is not None


def read_submission(body: bytes, bounds: Bounds = REQUEST_BOUNDS) -> Submission:
    """Read the bare account, or `{"payload": account, "task_params": …}`. Raises NotJson, TooMuchWork."""
    if not is_wrapped(body):
        account, shape_errors = ACCOUNT.examine(body, bounds)
        return Submission(account, _DEFAULT_TASK, tuple(shape_errors))
    wrapped, shape_errors = WRAPPED_ACCOUNT.examine(body, bounds)
    return Submission(wrapped.payload, wrapped.task_params, tuple(map(_without_wrapper, shape_errors)))


def sent_submission(body: bytes, *, with_digest: bool = False) -> Submission:
    """Return the result of `sent_submission_in_steps` in one step."""
    return finish_steps(sent_submission_in_steps(body, with_digest=with_digest))


def sent_submission_in_steps(body: bytes, *, with_digest: bool = False) -> Steps[Submission]:
    """Read a body to check its account (`market.submission_check`), in steps.

    Absent values are distinguished from empty values (`schemas.reading.as_sent`). `with_digest` also computes the
    digest of the content. Raises NotJson, TooMuchWork.
    """
    if not is_wrapped(body):
        if (bare := (yield from SENT_ACCOUNT.decode_in_steps(body, with_digest=with_digest))) is not None:
            return Submission(bare[0], _DEFAULT_TASK, (), bare[1])
        account, shape_errors = SENT_ACCOUNT.shape.examine(body)
        return Submission(account, _DEFAULT_TASK, tuple(shape_errors))
    if (decoded := (yield from SENT_WRAPPED_ACCOUNT.decode_in_steps(body, with_digest=False))) is not None:
        return Submission(decoded[0].payload, _task_with_defaults(decoded[0].task_params))
    wrapped, shape_errors = SENT_WRAPPED_ACCOUNT.shape.examine(body)
    return Submission(
        wrapped.payload,
        _task_with_defaults(wrapped.task_params),
        tuple(map(_without_wrapper, shape_errors)),
    )


def _task_with_defaults(task: TaskParams) -> TaskParams:
    """Return the task parameters, with defaults for parameters that were not sent."""
    if not task:
        return _DEFAULT_TASK
    sent = {name: getattr(task, name) for name in TaskParams.__struct_fields__}
    return TaskParams(**{name: value for name, value in sent.items() if value is not UNSET})


def stored_submission(body: bytes) -> Submission:
    """Read a body from the log, without limits. Raises NotJson."""
    return read_submission(body, STORED_BOUNDS)


def stored_account(body: bytes) -> Account:
    """Read the account of a body from the log, with the fast decoder if possible. Raises NotJson."""
    if not is_wrapped(body):
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            account = _decode(body)
            if are_decimals_valid(account, Account):
                return account
    return stored_submission(body).account


_decode: Callable[[bytes], Account] = msgspec.json.Decoder(
    with_unchecked_decimals(Account), float_hook=exact_number
).decode


_DEFAULT_TASK = TaskParams()


def _without_wrapper(problem: Problem) -> Problem:
    attr = "non_field_errors" if problem.attr == "payload" else problem.attr.removeprefix("payload.")
    return msgspec.structs.replace(problem, attr=attr)
